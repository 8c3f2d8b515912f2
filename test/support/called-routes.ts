/** Which routes of an OpenAPI document a program has called. */

interface Operation {
  readonly operationId: string;
}

type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

/** The operations that no line of `METHOD /path` is a call of. */
export function findUncalled(paths: Paths, sent: readonly string[]): readonly string[] {
  return Object.entries(paths).flatMap(([path, operations]) => {
    const pattern = `${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`;
    return Object.entries(operations)
      .filter(([method]) => {
        const whole = new RegExp(`^${method.toUpperCase()} ${pattern}`);
        return !sent.some((line) => whole.test(line));
      })
      .map(([, { operationId }]) => operationId);
  });
}
