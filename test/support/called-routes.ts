/** Which routes of an OpenAPI document a program has called, but for those that answer a stream. */

interface Operation {
  readonly operationId: string;
  readonly responses?: Readonly<Record<string, { readonly content?: Readonly<Record<string, unknown>> }>>;
}

type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

/** The clients have no streams: a stream of events is read with what the language has for it. */
function isStream({ responses = {} }: Operation): boolean {
  return Object.values(responses).some(({ content = {} }) => "text/event-stream" in content);
}

/** The operations that no line of `METHOD /path` is a call of. */
export function findUncalled(paths: Paths, sent: readonly string[]): readonly string[] {
  return Object.entries(paths).flatMap(([path, operations]) => {
    const pattern = `${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`;
    return Object.entries(operations)
      .filter(([method, operation]) => {
        if (isStream(operation)) return false;
        const whole = new RegExp(`^${method.toUpperCase()} ${pattern}`);
        return !sent.some((line) => whole.test(line));
      })
      .map(([, { operationId }]) => operationId);
  });
}
