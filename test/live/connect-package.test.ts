/** `@palimpsest/connect` as a stranger gets it: packed, installed, strictly checked, and run as its README says. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { parseBlocks, root } from "../support/documents.ts";
import { inGate } from "../support/gate.ts";
import { install, pack } from "../support/packed.ts";
import { startService } from "../support/service.ts";

const run = promisify(execFile);
const path = "clients/connect/README.md";

/** Of each module its code and its types. */
const archiveFilesMax = 40;

describe.skipIf(!inGate)("the packed package of the services", () => {
  const folder = mkdtempSync(join(tmpdir(), "palimpsest-connect-"));
  beforeAll(() => () => rmSync(folder, { recursive: true, force: true }));

  test("installs, has types that hold in a strict project, and runs as its README says", async () => {
    const { archive, paths } = await pack(folder, "clients/connect");
    expect(paths.length).toBeLessThan(archiveFilesMax);
    expect(paths.filter((file) => !/^(dist\/.*\.(js|d\.ts)|README\.md|LICENSE|package\.json)$/.test(file))).toEqual([]);
    expect(paths.filter((file) => /palimpsest\/node|etcd/.test(file))).toEqual([]);
    await install(folder, archive);
    const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as object;
    writeFileSync(join(folder, "package.json"), JSON.stringify({ ...manifest, type: "module" }));

    const service = await startService();
    try {
      const [block] = parseBlocks({ path, text: readFileSync(join(root, path), "utf8") }).filter(
        ({ language }) => language === "ts",
      );
      writeFileSync(join(folder, "program.ts"), block!.text.replaceAll("http://127.0.0.1:8080", service.address));
      const compilerOptions = {
        target: "es2022",
        module: "nodenext",
        types: [],
        strict: true,
        exactOptionalPropertyTypes: true,
        noUncheckedIndexedAccess: true,
        outDir: "out",
      };
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
      await run(join(root, "node_modules/.bin/tsc"), ["-p", "."], { cwd: folder }).catch((error: unknown) => {
        throw new Error((error as { stdout: string }).stdout, { cause: error });
      });
      const { stdout } = await run(process.execPath, [join(folder, "out/program.js")], { cwd: folder });
      expect(stdout).toContain("Erin prefers the light theme");
      expect(stdout).toMatch(/^1n 1$/m);
    } finally {
      await service.close();
    }
  });
});
