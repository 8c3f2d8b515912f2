/** One token is revoked by its id: that one, at once, on each wire. */
import { expect, test } from "vitest";
import { platformKey } from "../support/credentials.ts";
import { useGuarded } from "../support/guarded-service.ts";
import { wireNames, type Reply } from "../support/wires.ts";

const node = useGuarded();

const memories = [{ type: "fact", summary: "x", content: null }];

test.each(wireNames)(
  "over %s: the one that is named, and no other; a namespace's admin revokes what its profiles have",
  async (name) => {
    const call = (credential: string, method: string, request: object): Promise<Reply> =>
      node().over(name, credential)(method, request);
    const ns = `ns-${name}`;
    const db = `${ns}--alice`;
    const mint = async (method: string, request: object): Promise<{ token: string; jti: string }> =>
      (await call(platformKey, method, { ...request, scope: "admin" })).body;
    const [first, second, whole] = [
      await mint("ControlService.MintDatabaseToken", { db }),
      await mint("ControlService.MintDatabaseToken", { db }),
      await mint("ControlService.MintNamespaceToken", { ns }),
    ];
    const ingest = ({ token }: { token: string }): Promise<Reply> =>
      call(token, "MemoryService.Ingest", { ns, profile: "alice", memories });
    for (const token of [first, second, whole]) expect((await ingest(token)).code).toBe("ok");
    // Nobody revokes by a database what is of another one, and a token of the profile revokes nothing.
    expect(
      (await call(platformKey, "ControlService.RevokeDatabaseToken", { db: `${ns}--bob`, jti: first.jti })).code,
    ).toBe("ok");
    expect((await call(second.token, "ControlService.RevokeDatabaseToken", { db, jti: first.jti })).code).toBe(
      "forbidden",
    );
    expect((await ingest(first)).code).toBe("ok");
    expect((await call(whole.token, "ControlService.RevokeDatabaseToken", { db, jti: first.jti })).code).toBe("ok");
    expect(await ingest(first)).toMatchObject({ code: "unauthorized", message: "the token was revoked" });
    expect((await call(first.token, "MemoryService.Recall", { ns, profile: "alice", query: "x" })).code).toBe(
      "unauthorized",
    );
    expect([(await ingest(second)).code, (await ingest(whole)).code]).toEqual(["ok", "ok"]);
    expect((await call(whole.token, "ControlService.RevokeNamespaceToken", { ns, jti: whole.jti })).code).toBe(
      "forbidden",
    );
    for (const { jti } of [whole, second])
      expect((await call(platformKey, "ControlService.RevokeNamespaceToken", { ns, jti })).code).toBe("ok");
    expect([(await ingest(second)).code, (await ingest(whole)).code]).toEqual(["unauthorized", "unauthorized"]);
    expect((await call(platformKey, "ControlService.RevokeDatabaseToken", { db, jti: "no id" })).code).toBe(
      "invalid_request",
    );
  },
);
