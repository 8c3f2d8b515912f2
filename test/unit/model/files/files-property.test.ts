/** Any sequence of puts, edits, moves and deletes does to the tree what it does to a plain map of histories. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { ServiceError } from "../../../../src/base/faults/errors.ts";
import type { Tx } from "../../../../src/model/core/transaction.ts";
import { deleteFiles, moveFiles } from "../../../../src/model/files/file-moves.ts";
import { strayFiles } from "../../../../src/model/files/file-store.ts";
import {
  editFile,
  getFile,
  listFiles,
  listFileVersions,
  putFile,
  searchFiles,
} from "../../../../src/model/files/files.ts";
import { ModelDatabase } from "../../../support/model-database.ts";

type Act =
  | { readonly kind: "put"; readonly path: string; readonly text: string }
  | { readonly kind: "edit"; readonly path: string; readonly text: string }
  | { readonly kind: "move"; readonly path: string; readonly to: string; readonly overwrite: boolean }
  | { readonly kind: "delete"; readonly path: string; readonly recursive: boolean; readonly purge: boolean };

const words = ["parrot", "lantern", "harvest", "violin"];
const path = fc.array(fc.constantFrom("a", "b", "c-d"), { minLength: 1, maxLength: 3 }).map((parts) => parts.join("/"));
const text = fc.array(fc.constantFrom(...words), { maxLength: 3 }).map((said) => said.join(" "));
const acts: fc.Arbitrary<Act> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("put" as const), path, text }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("edit" as const), path, text }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("move" as const), path, to: path, overwrite: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("delete" as const), path, recursive: fc.boolean(), purge: fc.boolean() }),
  },
);

/** The tree as maps: what is there, and for each path its texts by version, `undefined` where it ended. */
class Model {
  files = new Map<string, string>();
  histories = new Map<string, (string | undefined)[]>();

  copy(): Model {
    const copy = new Model();
    copy.files = new Map(this.files);
    copy.histories = new Map([...this.histories].map(([at, history]) => [at, [...history]]));
    return copy;
  }

  #below(folder: string): string[] {
    return [...this.files.keys()].filter((at) => at.startsWith(`${folder}/`));
  }

  #at(from: string): string[] {
    return this.files.has(from) ? [from] : this.#below(from).toSorted();
  }

  #write(at: string, value: string): void {
    this.files.set(at, value);
    this.histories.set(at, [...(this.histories.get(at) ?? []), value]);
  }

  #end(at: string): void {
    this.files.delete(at);
    this.histories.get(at)!.push(undefined);
  }

  #isFree(at: string): boolean {
    return this.#below(at).length === 0 && ![...this.files.keys()].some((file) => at.startsWith(`${file}/`));
  }

  /** Gives whether the act is allowed; if not, the model is of no use any more. */
  apply(act: Act): boolean {
    switch (act.kind) {
      case "put":
        if (!this.files.has(act.path) && !this.#isFree(act.path)) return false;
        if (this.files.get(act.path) !== act.text) this.#write(act.path, act.text);
        return true;
      case "edit": {
        const before = this.files.get(act.path);
        if (before === undefined) return false;
        const added = act.text === "" ? "" : `${act.text}\n`;
        if (added !== "") this.#write(act.path, added + before);
        return true;
      }
      case "move":
        return this.#move(act);
      case "delete": {
        const found = this.#at(act.path);
        if (!act.recursive && found.some((at) => at !== act.path)) return false;
        for (const at of found) this.#end(at);
        if (!act.purge) return true;
        const isPurged = (at: string): boolean => at === act.path || (act.recursive && at.startsWith(`${act.path}/`));
        for (const at of this.histories.keys()) if (isPurged(at)) this.histories.delete(at);
        return true;
      }
    }
  }

  #move({ path: from, to, overwrite }: Extract<Act, { kind: "move" }>): boolean {
    if (from === to || to.startsWith(`${from}/`) || from.startsWith(`${to}/`)) return false;
    const found = this.#at(from);
    for (const at of found) {
      const target = to + at.slice(from.length);
      if (this.files.has(target) ? !overwrite : !this.#isFree(target)) return false;
      const value = this.files.get(at)!;
      this.#end(at);
      this.#write(target, value);
    }
    return found.length > 0;
  }
}

function run(tx: Tx, act: Act): unknown {
  switch (act.kind) {
    case "put":
      return putFile(tx, act);
    case "edit":
      return editFile(tx, { path: act.path, edits: [{ afterLine: 0, text: act.text }] });
    case "move":
      return moveFiles(tx, act);
    case "delete":
      return deleteFiles(tx, act);
  }
}

function expectSame(database: ModelDatabase, model: Model): void {
  const view = database.view();
  const all = listFiles(view, { folder: "", recursive: true, limit: 1_000 }).entries.map(({ path: at }) => at);
  expect(all).toEqual([...model.files.keys()].toSorted());
  for (const [at, value] of model.files) expect(getFile(view, { path: at }).text).toBe(value);
  for (const [at, history] of model.histories) {
    const versions = listFileVersions(view, { path: at }).versions.toReversed();
    expect(versions.map(({ version }) => version)).toEqual(history.map((_, index) => index + 1));
    history.forEach((value, index) => {
      if (value === undefined) expect(versions[index]!.hash).toBeUndefined();
      else expect(getFile(view, { path: at, version: index + 1 }).text).toBe(value);
    });
  }
  for (const folder of ["", "a", "b/a"]) {
    const inside = [...model.files.keys()].filter((at) => folder === "" || at.startsWith(`${folder}/`));
    const level = inside.map((at) => at.slice(folder === "" ? 0 : folder.length + 1).split("/"));
    const names = new Set(level.map(([name, ...rest]) => (rest.length > 0 ? `${name}/` : name)));
    const listed = listFiles(view, { folder, recursive: false, limit: 1_000 }).entries;
    const found = listed.map(({ path: at, kind }) =>
      (kind === "folder" ? `${at}/` : at).slice(folder === "" ? 0 : folder.length + 1),
    );
    expect(found.toSorted()).toEqual([...names].toSorted());
  }
  for (const word of words) {
    const hits = searchFiles(view, { query: word, folder: "", k: 100 }).hits.map(({ path: at }) => at);
    const holders = [...model.files].filter(([, value]) => value.includes(word)).map(([at]) => at);
    for (const at of hits) expect(holders).toContain(at);
    expect(hits.length > 0).toBe(holders.length > 0);
  }
  const stray = strayFiles(database.connection);
  if (stray !== undefined) expect(database.connection.get(stray)).toBeUndefined();
}

test.each([1, 2])("the tree and its versions are those of a plain model, in a database of format %i", (format) => {
  fc.assert(
    fc.property(fc.array(acts, { minLength: 1, maxLength: 40 }), (sequence) => {
      const database = new ModelDatabase(undefined, format);
      let model = new Model();
      try {
        for (const act of sequence) {
          const after = model.copy();
          const isAllowed = after.apply(act);
          const [outcome] = database.group((tx) => run(tx, act));
          if (!isAllowed) expect(outcome).toMatchObject({ kind: "failed", error: expect.any(ServiceError) as unknown });
          else {
            expect(outcome!.kind).toBe("done");
            model = after;
          }
        }
        expectSame(database, model);
      } finally {
        database.close();
      }
    }),
    { numRuns: 40 },
  );
});
