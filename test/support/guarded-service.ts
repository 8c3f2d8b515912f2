/** A node with authentication on, and the credentials of a test. */
import { afterAll, beforeAll, expect } from "vitest";
import { bearer, guardedVariables, platformKey } from "./credentials.ts";
import { startService, type RestAnswer, type Service } from "./service.ts";
import type { Reply, WireName } from "./wires.ts";

type Subject = { readonly db: string } | { readonly ns: string };

export interface Guarded {
  readonly service: Service;
  /** Mints a token with the platform key. */
  mint(subject: Subject, scope: string, expiresIn?: number): Promise<string>;
  /** Calls REST with a credential, or without one. */
  call(
    credential: string | undefined,
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<RestAnswer>;
  /** Calls over a wire with a credential, or without one. */
  over(wire: WireName, credential: string | undefined): (method: string, request: object) => Promise<Reply>;
  /** Creates a database with the platform key. */
  create(name: string): Promise<string>;
}

/** Starts a node that asks for credentials. */
export async function startGuarded(variables: Record<string, string> = {}, directory?: string): Promise<Guarded> {
  return guarded(await startService({ ...guardedVariables, ...variables }, directory));
}

/** A node that asks for credentials, for all tests of a file: started before them, closed after them. */
export function useGuarded(variables: Record<string, string> = {}): () => Guarded {
  let node: Guarded | undefined;
  beforeAll(async () => {
    node = await startGuarded(variables);
  });
  afterAll(() => node?.service.close());
  return () => {
    if (!node) throw new Error("the node is not running outside a test");
    return node;
  };
}

/** The same over a node that runs already. */
export function guarded(service: Service): Guarded {
  const call: Guarded["call"] = (credential, method, path, body, headers) =>
    service.call(method, path, body, { ...bearer(credential), ...headers });
  return {
    service,
    call,
    over: (wire, credential) => (method, request) => service.wire(wire).call(method, request, bearer(credential)),
    async mint(subject, scope, expiresIn) {
      const path = "db" in subject ? `/v1/databases/${subject.db}/tokens` : `/v1/namespaces/${subject.ns}/tokens`;
      const { status, json, text } = await call(platformKey, "POST", path, {
        scope,
        ...(expiresIn === undefined ? {} : { expires_in: expiresIn }),
      });
      expect(status, text).toBe(200);
      return (json as { token: string }).token;
    },
    async create(name) {
      expect((await call(platformKey, "POST", "/v1/databases", { name })).status).toBe(201);
      return name;
    },
  };
}
