/** What the lock file must say, beyond what npm writes there by itself. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { packageRoot } from "../../src/base/package-root.ts";

interface Entry {
  readonly gypfile?: boolean;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly optional?: boolean;
  readonly dev?: boolean;
  readonly engines?: { readonly node?: string };
}

interface Lock {
  readonly packages: Record<string, Entry>;
}

function readLock(folder: string): Lock {
  return JSON.parse(readFileSync(new URL(`${folder}package-lock.json`, packageRoot), "utf8")) as Lock;
}

const lock = readLock("");

test("better-sqlite3 is marked `gypfile: false`, so that `npm ci` compiles nothing", () => {
  // The package ships its binary and says so in its own package.json, but `npm ci` looks at the lock file alone:
  // without the mark it runs node-gyp, which fails where Node's headers cannot be had. `npm install` drops the mark
  // when it writes the file anew; put it back.
  expect(lock.packages["node_modules/better-sqlite3"]?.gypfile).toBe(false);
});

test.each(["", "packages/embed-local/"])(
  "no entry of %spackage-lock.json names a host that it was fetched from",
  (folder) => {
    const { packages } = readLock(folder);
    expect(Object.values(packages).filter(({ integrity }) => integrity).length).toBeGreaterThan(3);
    expect(Object.values(packages).filter(({ resolved }) => resolved !== undefined)).toEqual([]);
  },
);

test("no option of a checkout wants a newer Node than npm may run with: npm would leave it out without a word", () => {
  // A tool's options are what it has compiled for other platforms; what it wants of Node, the tool wants too.
  const options = Object.entries(lock.packages).filter(([, { optional, dev }]) => optional && !dev);
  expect(options.length).toBeGreaterThan(0);
  const oldest = 20;
  const wants = ({ engines }: Entry): number => Number(/^>= ?(\d+)/.exec(engines?.node ?? "")?.[1] ?? 0);
  expect(options.filter(([, entry]) => wants(entry) > oldest)).toEqual([]);
});
