/** Files over each wire: put, read, edited, listed, moved, deleted, searched; conditions and entity tags over REST. */
import { hash } from "node:crypto";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { FileService } from "../../gen/palimpsest/v1/file_pb.ts";
import { ok, useService } from "../support/service.ts";
import { wireNames, type Reply } from "../support/wires.ts";

const service = useService();

describe.each(wireNames)("over %s", (name) => {
  const call = (method: string, request: object): Promise<Reply> =>
    service().wire(name).call(`FileService.${method}`, request);
  const must = (method: string, request: object): Promise<Reply> => ok(call(method, request));

  test("a file is put, read by lines and by version, edited; each version names its transaction", async () => {
    const db = await service().database();
    const at = { db, path: "notes/tokyo trip.md" };
    const first = (await must("PutFile", { ...at, text: "one\ntwo\n" })).body;
    expect(first).toMatchObject({
      path: at.path,
      version: 1,
      hash: hash("sha256", "one\ntwo\n"),
      size: 8,
      created: true,
    });
    const edits = [
      { old_text: "two", text: "zwei" },
      { after_line: 2, text: "drei" },
    ];
    const second = (await must("EditFile", { ...at, edits, if_match: first.hash })).body;
    expect(second).toMatchObject({ version: 2, created: false });
    expect((await must("GetFile", at)).body).toMatchObject({ text: "one\nzwei\ndrei\n", version: 2, lines: 3 });
    expect((await must("GetFile", { ...at, first_line: 2, last_line: 2 })).body.text).toBe("zwei\n");
    expect((await must("GetFile", { ...at, version: 1 })).body).toMatchObject({ text: "one\ntwo\n", hash: first.hash });
    const { versions } = (await must("ListFileVersions", at)).body;
    expect(versions.map((one: { written_txid: number }) => one.written_txid)).toEqual([second.txid, first.txid]);
    expect(versions[0]).toMatchObject({ version: 2, change: "written", hash: second.hash, size: second.size });
  });

  test("what does not fit is refused by name and changes nothing", async () => {
    const db = await service().database();
    const at = { db, path: "a/b" };
    const { txid } = await must("PutFile", { ...at, text: "x x", if_absent: true });
    const refusals: [string, object, string, RegExp][] = [
      ["PutFile", { ...at, text: "y", if_absent: true }, "conflict", /there is a file/],
      ["PutFile", { ...at, text: "y", if_match: "0".repeat(64) }, "conflict", /the file has changed/],
      ["PutFile", { db, path: "a", text: "y" }, "conflict", /there is a folder/],
      ["PutFile", { db, path: "a/../b", text: "y" }, "invalid_request", /none of them empty, \. or \.\./],
      ["EditFile", { ...at, edits: [{ old_text: "x", text: "y" }] }, "conflict", /occurs 2 times/],
      ["EditFile", { db, path: "c", edits: [{ old_text: "x", text: "y" }] }, "not_found", /no file/],
      ["GetFile", { db, path: "c" }, "not_found", /no file/],
      ["GetFile", { ...at, version: 9 }, "not_found", /kept are 1 to 1/],
      ["MoveFiles", { db, path: "c", to: "d" }, "not_found", /no file/],
      ["DeleteFiles", { db, path: "a" }, "conflict", /recursive/],
      ["ListFiles", { db, cursor: "?" }, "invalid_request", /cursor/],
      ["SearchFiles", { db, query: "x", k: 101 }, "invalid_request", /1 to 100/],
    ];
    for (const [method, request, code, message] of refusals)
      expect(await call(method, request), method).toMatchObject({
        code,
        message: expect.stringMatching(message) as unknown,
      });
    expect((await must("GetFile", at)).txid).toBe(txid);
  });

  test("folders are listed, moved, deleted and purged", async () => {
    const db = await service().database();
    for (const path of ["a/x", "a/y/z", "b"]) await must("PutFile", { db, path, text: `text of ${path}` });
    const { entries, next_cursor } = (await must("ListFiles", { db, limit: 1 })).body;
    expect(entries).toEqual([{ path: "a", kind: "folder" }]);
    expect((await must("ListFiles", { db, cursor: next_cursor })).body).toMatchObject({
      entries: [{ path: "b", kind: "file", version: 1, size: 9 }],
      next_cursor: null,
    });
    expect((await must("MoveFiles", { db, path: "a", to: "c" })).body.moved).toBe(2);
    expect((await call("MoveFiles", { db, path: "b", to: "c/x" })).code).toBe("already_exists");
    await must("MoveFiles", { db, path: "b", to: "c/x", overwrite: true });
    const all = (await must("ListFiles", { db, recursive: true })).body.entries;
    expect(all.map(({ path }: { path: string }) => path)).toEqual(["c/x", "c/y/z"]);
    expect((await must("DeleteFiles", { db, path: "c", recursive: true })).body).toMatchObject({ deleted: 2 });
    const purge = { db, path: "c", recursive: true, purge: true };
    expect((await must("DeleteFiles", purge)).body).toMatchObject({ deleted: 0, purged_versions: 5 });
    expect((await must("ListFileVersions", { db, path: "c/x" })).body.versions).toEqual([]);
  });

  test("files are found by their words, with the lines that hold them", async () => {
    const db = await service().database();
    await must("PutFile", { db, path: "travel/plan.md", text: "# Tokyo\n\nWe stay at the Hotel Okura.\n" });
    await must("PutFile", { db, path: "work/plan.md", text: "The budget is due.\n" });
    const { hits } = (await must("SearchFiles", { db, query: "hotel okura", folder: "travel" })).body;
    expect(hits).toMatchObject([
      { path: "travel/plan.md", passage: { first_line: 3, last_line: 3, text: "We stay at the Hotel Okura.\n" } },
    ]);
    expect((await must("SearchFiles", { db, query: "hotel okura", folder: "work" })).body.hits).toEqual([]);
  });

  test("a branch has its own tree, and a rewind brings the old one back", async () => {
    const db = await service().database();
    const { txid } = await must("PutFile", { db, path: "a", text: "one" });
    await ok(service().wire(name).call("BranchService.CreateBranch", { db, name: "side" }));
    await must("PutFile", { db: `${db}@side`, path: "a", text: "two" });
    expect((await must("GetFile", { db, path: "a" })).body.text).toBe("one");
    await must("DeleteFiles", { db, path: "a", purge: true });
    await ok(
      service()
        .wire(name)
        .call("BranchService.RewindBranch", { db, branch: "main", to: String(txid) }),
    );
    expect((await must("GetFile", { db, path: "a" })).body.text).toBe("one");
  });
});

test("REST takes conditions as headers, answers entity tags, and 304 to who has the text", async () => {
  const db = await service().database();
  const url = `${service().address}/v1/db/${db}/files/${encodeURIComponent("notes/a.md")}`;
  const put = (text: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(url, {
      method: "PUT",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ text }),
    });
  const created = await put("one", { "if-none-match": "*" });
  const tag = created.headers.get("etag")!;
  expect([created.status, tag]).toEqual([200, `"${hash("sha256", "one")}"`]);
  const again = await put("two", { "if-none-match": "*" });
  expect([again.status, ((await again.json()) as { code: string }).code]).toEqual([412, "conflict"]);
  expect((await put("two", { "if-match": tag })).status).toBe(200);
  expect((await put("three", { "if-match": tag })).status).toBe(412);
  expect((await put("three", { "if-match": "W/x" })).status).toBe(400);
  const current = (await fetch(url)).headers.get("etag")!;
  const held = await fetch(url, { headers: { "if-none-match": `"other", ${current}` } });
  expect([held.status, await held.text(), held.headers.get("etag")]).toEqual([304, "", current]);
  expect(held.headers.get("service-txid")).not.toBeNull();
  expect((await fetch(url, { headers: { "if-none-match": tag } })).status).toBe(200);
  expect((await fetch(url, { method: "DELETE", headers: { "if-match": tag } })).status).toBe(412);
  expect((await fetch(url, { method: "DELETE", headers: { "if-match": current } })).status).toBe(200);
});

test("Connect answers as the others do", async () => {
  const db = await service().database();
  const client = createClient(FileService, createConnectTransport({ baseUrl: service().address, httpVersion: "1.1" }));
  const { hash: written } = await client.putFile({ db, path: "a", text: "one" });
  expect(await client.getFile({ db, path: "a" })).toMatchObject({ text: "one", hash: written });
  await expect(client.putFile({ db, path: "a", text: "x", ifAbsent: true })).rejects.toThrow("there is a file");
});
