/** A collection in a database of its own, spoken to in plain values. */
import { deleteDocs, insertDocs, updateDocs } from "../../src/model/docs/docs.ts";
import { createDocIndex } from "../../src/model/docs/docs-catalog.ts";
import { findDocs, type SortKey } from "../../src/model/docs/docs-find.ts";
import { plainText, type Plain, type PlainDoc } from "./docs-oracle.ts";
import { ModelDatabase } from "./model-database.ts";

export class DocsCollection {
  readonly database = new ModelDatabase();
  readonly collection: string;

  constructor(collection = "things") {
    this.collection = collection;
  }

  insert(...docs: readonly Plain[]): readonly string[] {
    return this.database.write((tx) => insertDocs(tx, { collection: this.collection, docs: docs.map(plainText) })).ids;
  }

  /** The texts found. */
  texts(
    filter: PlainDoc = {},
    { projection, ...more }: { sort?: readonly SortKey[]; limit?: number; skip?: number; projection?: PlainDoc } = {},
  ): readonly string[] {
    return findDocs(this.database.view(), {
      collection: this.collection,
      filter: plainText(filter),
      ...more,
      ...(projection && { projection: plainText(projection) }),
    }).docs;
  }

  /** The values found at one field. */
  find(
    field: string,
    filter: PlainDoc = {},
    more: { sort?: readonly SortKey[]; limit?: number; skip?: number; projection?: PlainDoc } = {},
  ): unknown[] {
    return this.texts(filter, more).map((text) => (JSON.parse(text) as Record<string, unknown>)[field]);
  }

  update(filter: PlainDoc, update: Plain, multi = false): { readonly matched: number; readonly modified: number } {
    return this.database.write((tx) =>
      updateDocs(tx, { collection: this.collection, filter: plainText(filter), update: plainText(update), multi }),
    );
  }

  /** The id of the document that was made, if one was. */
  upsert(filter: PlainDoc, update: Plain): string | undefined {
    const input = { collection: this.collection, filter: plainText(filter), update: plainText(update) };
    return this.database.write((tx) => updateDocs(tx, { ...input, multi: false, upsert: true })).upsertedId;
  }

  delete(filter: PlainDoc, multi = false): number {
    return this.database.write((tx) =>
      deleteDocs(tx, { collection: this.collection, filter: plainText(filter), multi }),
    ).deleted;
  }

  index(...paths: readonly string[]): void {
    for (const path of paths) this.database.write((tx) => createDocIndex(tx, { collection: this.collection, path }));
  }

  /** Whether an act writes anything: a write that changes nothing must not cost a transaction id. */
  writes(act: () => unknown): boolean {
    const changes = () => this.database.connection.get<{ n: number }>("SELECT total_changes() AS n")!.n;
    const before = changes();
    act();
    return changes() !== before;
  }

  close(): void {
    this.database.close();
  }
}

/** The refusal of an act, as `code: message`; fails when there is none. */
export function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    return `${code}: ${message}`;
  }
  throw new Error("nothing was refused");
}
