/** A node with authentication on, and the credentials of a test. */
import { expect } from "vitest";
import { bearer, guardedVariables, platformKey } from "./credentials.ts";
import { startService, type RestAnswer, type Service } from "./service.ts";

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
  /** Creates a database with the platform key. */
  create(name: string): Promise<string>;
}

/** Starts a node that asks for credentials. */
export async function startGuarded(variables: Record<string, string> = {}, directory?: string): Promise<Guarded> {
  return guarded(await startService({ ...guardedVariables, ...variables }, directory));
}

/** The same over a node that runs already. */
export function guarded(service: Service): Guarded {
  const call: Guarded["call"] = (credential, method, path, body, headers) =>
    service.call(method, path, body, { ...bearer(credential), ...headers });
  return {
    service,
    call,
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
