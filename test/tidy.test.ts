/** Holds up the rules of the house (docs/architecture.md). A finding says where, what, and what to do about it. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { packageRoot } from "../src/base/package-root.ts";
import { maskSource } from "./support/source-mask.ts";
import {
  badFileName,
  deadMentions,
  listFloorBreaches,
  checkFiles,
  checkSources,
  floors,
  ignoredCounts,
  listImports,
  longLines,
  missingHeader,
  packagesOfFloor,
  reservedNamesUsed,
  rooms,
  scan,
  swallowedErrors,
  unfinishedBusiness,
  listStarted,
  modulesBySourcePath,
  type Finding,
  type ScannedFile,
  type SourceFile,
} from "./support/tidy-rules.ts";

function read(folder: string): SourceFile[] {
  const root = new URL(`../${folder}/`, import.meta.url);
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => ({ path: path.replaceAll("\\", "/"), text: readFileSync(new URL(path, root), "utf8") }));
}

function told(findings: readonly Finding[], root: string): string[] {
  return findings.map(({ path, line, message }) => `${root}/${path}:${line} ${message}`);
}

function file(path: string, text: string): ScannedFile {
  return scan({ path, text });
}

describe("the house", () => {
  test("the sources keep every rule", () => {
    const sources = read("src");
    expect(sources.length).toBeGreaterThan(10);
    expect(told(checkSources(sources), "src")).toEqual([]);
  });

  test("the tests keep the rules that are theirs", () => {
    expect(told(checkFiles(read("test").map(scan)), "test")).toEqual([]);
  });

  test("every floor says which packages it may import", () => {
    expect(Object.keys(packagesOfFloor).toSorted()).toEqual(floors.flat().toSorted());
    expect(Object.keys(rooms).toSorted()).toEqual(floors.flat().toSorted());
  });
});

describe("the mask", () => {
  test("keeps code and length, blanks comments, strings, templates and patterns", () => {
    const text = 'a("x // y"); // note\nb(/[/"]+/g, `t ${c({ d: `${e}` })} u`); /* two\nlines */ f / g / h;';
    const { code, comments } = maskSource(text);
    expect(code).toHaveLength(text.length);
    expect(code.replace(/ +/g, " ")).toBe('a(" "); \nb(/ /g, ` ${c({ d: `${e}` })} `); \n f / g / h;');
    expect(comments.replace(/\s+/g, " ").trim()).toBe("// note /* two lines */");
  });

  test.each(["'", '"', "`"])("an escaped %s does not end its text", (quote) => {
    expect(maskSource(`${quote}a\\${quote}b${quote};c`).code.replaceAll(" ", "")).toBe(`${quote}${quote};c`);
  });

  test("a slash after a value divides, elsewhere it begins a pattern", () => {
    expect(maskSource("x = a / b; return /Date.now/").code).toContain("a / b;");
    expect(maskSource("return /Date.now/;").code).not.toContain("Date");
    expect(maskSource("(a) / Date.now() / 2").code).toContain("Date.now()");
  });
});

describe("the rules find what they are for", () => {
  test.each([
    ["model/kv.ts", 'import { a } from "../engine/database/database.ts";', "upward"],
    ["model/kv.ts", 'import type { A } from "../engine/database/database.ts";', "upward"],
    ["model/kv.ts", 'export { a } from "../service/call/call.ts";', "upward"],
    ["model/kv.ts", 'const a = await import("../server/main.ts");', "upward"],
    ["store/file/file-store.ts", 'import { a } from "../../ai/egress.ts";', "sideways"],
    ["sqlite/wal/wal.ts", 'import { a } from "../../control/databases/databases.ts";', "sideways"],
    ["model/kv.ts", 'import { A } from "../../gen/palimpsest/v1/data_pb.ts";', "generated"],
    ["model/kv.ts", 'import { a } from "../../test/support/random.ts";', "outside src"],
    ["model/kv.ts", 'import { a } from "./wal";', "ending .ts"],
    ["model/kv.ts", 'import Database from "better-sqlite3";', "better-sqlite3"],
    ["engine/thread.ts", 'import * as http from "node:http";', "node:http"],
    ["base/log.ts", 'import { randomBytes } from "node:crypto";', "node:crypto"],
    ["service/call/call.ts", 'import "@connectrpc/connect";', "@connectrpc/connect"],
    ["model/kv.ts", 'const fs = require("node:fs");', "node:fs"],
    ["engine/api/measures.ts", 'import { a } from "../pool/registry.ts";', "room"],
    ["engine/api/measures.ts", 'import { a } from "../engine.ts";', "room"],
    ["engine/attic/measures.ts", "", "no room"],
    ["kv.ts", "", "no floor"],
    ["toys/kv.ts", "", "no floor"],
  ])("floors: %s with %s", (path, text, word) => {
    expect(listFloorBreaches(file(path, text))).toEqual([{ path, line: 1, message: expect.stringContaining(word) }]);
  });

  test.each([
    ["model/kv.ts", 'import { a } from "../base/faults/errors.ts";'],
    ["model/kv.ts", 'import { a } from "./wal.ts";'],
    ["engine/pool/registry.ts", 'import { a } from "../api/measures.ts";'],
    ["engine/engine.ts", 'import { a } from "./pool/registry.ts";'],
    ["model/kv.ts", 'import { createHash } from "node:crypto";'],
    ["server/node/request-handler.ts", 'import { A } from "../../../gen/palimpsest/v1/data_pb.ts";'],
    ["server/node/request-handler.ts", 'import { A } from "@connectrpc/connect-node";'],
    ["base/world.ts", 'import { randomBytes } from "node:crypto";'],
    ["model/kv.ts", '// import { a } from "../engine/database/database.ts";'],
    ["model/kv.ts", 'const text = `import { a } from "../engine/database/database.ts"`;'],
    ["model/kv.ts", 'this.databases.require("name"); Array.from("abc");'],
  ])("floors: %s may %s", (path, text) => {
    expect(listFloorBreaches(file(path, text))).toEqual([]);
  });

  test.each([
    "Date.now()",
    "Date . now()",
    "new Date()",
    "new Date( )",
    "const d = new Date;",
    "Date()",
    "performance.now()",
    "process.hrtime.bigint()",
    "setTimeout(f, 1)",
    "const t = setInterval;",
    "setImmediate(f)",
    "globalThis.Math.random()",
    "Math.random()",
    "randomUUID()",
    "crypto.randomUUID()",
    "randomBytes(4)",
    "crypto.getRandomValues(a)",
    "AbortSignal.timeout(5)",
    "process.env.A",
    "process.env['A']",
    "process.argv",
    "console.log(1)",
    "new Worker(entry)",
    "`${Date.now()}`",
  ])("reserved names: %s", (text) => {
    const [found, ...more] = reservedNamesUsed(file("model/kv.ts", `const a = 1;\n${text}`));
    expect(found).toEqual({ path: "model/kv.ts", line: 2, message: expect.stringMatching(/^uses .+; \w+/) });
    expect(more).toEqual([]);
  });

  test.each([
    "new Date(nowMs)",
    "world.nowMs()",
    "world.randomBytes(4)",
    "world.after(1, f)",
    '"Date.now()"',
    "// Date.now()",
    "socket.setTimeout(5)",
    "updateDate(1)",
    "a.performance",
    "process.report",
  ])("reserved names: %s is free", (text) => {
    expect(reservedNamesUsed(file("model/kv.ts", text))).toEqual([]);
  });

  test("reserved names are free where they belong", () => {
    expect(
      reservedNamesUsed(
        file("base/world.ts", "Date.now(); performance.now(); setTimeout(f, 1); setImmediate(f); randomBytes(1);"),
      ),
    ).toEqual([]);
    expect(reservedNamesUsed(file("server/config/config.ts", "process.env.A = b;"))).toEqual([]);
    expect(reservedNamesUsed(file("server/config/config.ts", "process.argv;"))).toHaveLength(1);
  });

  test("columns: 120 pass, 121 do not, whatever the characters", () => {
    expect(longLines(file("model/kv.ts", `a\n${"é".repeat(120)}`))).toEqual([]);
    expect(longLines(file("model/kv.ts", `a\n${"é".repeat(121)}`))).toMatchObject([{ line: 2 }]);
  });

  test("file names", () => {
    for (const path of [
      "model/utils.ts",
      "model/index.ts",
      "model/kv-helpers.ts",
      "model/Kv.ts",
      "model/kv_store.ts",
      "model/common.ts",
    ])
      expect(badFileName(file(path, ""))).toHaveLength(1);
    for (const path of ["model/kv.ts", "model/index/vector-index.ts", "unit/model/kv.test.ts"])
      expect(badFileName(file(path, ""))).toEqual([]);
  });

  test("unfinished business stands in comments, not in texts", () => {
    expect(unfinishedBusiness(file("model/kv.ts", "// TODO later\n/* FIXME */\n// @ts-ignore"))).toHaveLength(3);
    expect(unfinishedBusiness(file("model/kv.ts", 'const a = "TODO";'))).toEqual([]);
  });

  test("headers, also below a shebang", () => {
    expect(missingHeader(file("model/kv.ts", "import a;"))).toHaveLength(1);
    expect(missingHeader(file("server/main.ts", "#!/usr/bin/env node\n/** Owns. */"))).toEqual([]);
  });

  test.each([
    "writeSync(descriptor, bytes);",
    "fs.writeFileSync(path, text);",
    "await appendFile(path, text);",
    "createWriteStream(path);",
    "await handle.writev(parts);",
  ])("writes of files: %s", (text) => {
    expect(reservedNamesUsed(file("engine/local/database-files.ts", text))).toEqual([
      { path: "engine/local/database-files.ts", line: 1, message: expect.stringContaining("base/disk") },
    ]);
    expect(reservedNamesUsed(file("base/disk.ts", text))).toEqual([]);
  });

  test.each([
    "writeSync(descriptor, bytes, 0, 5, 0);",
    "if (a) { fs.writeSync(descriptor, bytes); }",
    "await handle.write(bytes);",
    "await this.#file.write(bytes, 0, 1, 0);",
    "try { await handle.writev([...parts]); } finally { b(); }",
    "void handle.write(bytes);",
    "const a = 1;\n  await handle\n    .write(bytes);",
    "each(() => handle.writev(parts), () => { handle.writev(parts); });",
  ])("counts that nobody looks at: %s", (text) => {
    expect(
      ignoredCounts(file("store/file/file-system.ts", `import { open } from "node:fs/promises";\n${text}`)),
    ).toHaveLength(1);
  });

  test.each([
    "const { bytesWritten } = await handle.write(bytes);",
    "done += writeSync(descriptor, bytes, 0, 5, 0);",
    "return handle.writev(parts);",
    "write: (bytes) => writeSync(descriptor, bytes),",
    "stdout.write(text);",
    "around.stderr.write(text);",
    "written = (await handle.writev(parts)).bytesWritten;",
  ])("counts that somebody looks at: %s", (text) => {
    expect(
      ignoredCounts(file("store/file/file-system.ts", `import { open } from "node:fs/promises";\n${text}`)),
    ).toEqual([]);
  });

  test("counts of what is no file are free", () => {
    expect(ignoredCounts(file("service/call/call.ts", "await engine.write(target);"))).toEqual([]);
  });

  test("swallowed errors", () => {
    expect(swallowedErrors(file("model/kv.ts", "try { a(); } catch {}\ntry { b(); } catch (error) { }"))).toHaveLength(
      2,
    );
    expect(
      swallowedErrors(
        file(
          "model/kv.ts",
          "try { a(); } catch {\n// Gone already: what we wanted.\n}\ntry { b(); } catch { return 1; }",
        ),
      ),
    ).toEqual([]);
  });
});

describe("references", () => {
  test("a comment names files that are there", () => {
    const sources = [file("base/world.ts", "/** See base/log and base/lag. */"), file("base/log.ts", "/** Logs. */")];
    expect(deadMentions(sources)).toEqual([
      { path: "base/world.ts", line: 1, message: expect.stringContaining("base/lag") },
    ]);
  });

  test("a module that is started is found in the build too", () => {
    const found = (text: string): number => modulesBySourcePath(file("engine/threads/client.ts", text)).length;
    expect(found("new Worker(new URL(`./thread${extname(import.meta.url)}`, import.meta.url));")).toBe(1);
    expect(found('new Worker(new URL("./thread.ts", import.meta.url));')).toBe(1);
    expect(found('startThread(moduleFile("engine/thread.ts")); new URL("../../", import.meta.url);')).toBe(0);
    const started = read("src").flatMap((source) => listStarted(scan(source)));
    const built = readFileSync(new URL("rolldown.config.ts", packageRoot), "utf8");
    expect(started.length).toBeGreaterThan(3);
    for (const path of [...started, "server/main.ts"]) {
      expect(existsSync(new URL(`src/${path}`, packageRoot)), path).toBe(true);
      expect(built).toContain(`"${path.replace(/\.ts$/, "")}"`);
    }
  });

  test("every form of import is seen", () => {
    const text =
      'import a from "./a.ts";\nimport {\n b } from "./b.ts";\nimport "./c.ts";\nexport * from "./d.ts";\nlet ' +
      'e: typeof import("./e.ts");\nawait import("./f.ts");';
    expect(listImports(file("model/kv.ts", text)).map(({ specifier }) => specifier)).toEqual([
      "./a.ts",
      "./b.ts",
      "./c.ts",
      "./d.ts",
      "./e.ts",
      "./f.ts",
    ]);
  });
});
