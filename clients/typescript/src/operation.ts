/** What the client must know of an operation to call it. */
export interface Operation {
  /** Its id in the OpenAPI document, such as `listMemories`. */
  readonly id: string;
  readonly method: string;
  /** Such as `/v1/db/{db}/sql`. */
  readonly path: string;
  /** The wire's names of the query parameters. */
  readonly query: readonly string[];
  readonly body: "json" | "raw" | "none";
  /** What a success brings. */
  readonly answer: "json" | "raw" | "none" | "events";
  /** The names of the request's and the answer's objects. */
  readonly input?: string;
  readonly output?: string;
  /** Whether it is about a branch, whose transaction id its answers tell. */
  readonly tellsTxid?: true;
  /** Whether it changes nothing, so that it can always be repeated. */
  readonly reads?: true;
  /** Whether an idempotency key makes it one that can be repeated. */
  readonly takesKey?: true;
  /** Whether done twice it leaves what done once leaves. */
  readonly isIdempotent?: true;
}
