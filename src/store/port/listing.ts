/** A listing as a stream: of any length, with one page of it in memory. */
import { limits } from "../../base/limits.ts";
import type { ListedObject, ObjectStore } from "./object-store.ts";

/** Every object under the prefix, in the order of keys, those behind `after` only. */
export async function* listed(store: ObjectStore, prefix: string, after?: string): AsyncGenerator<ListedObject, void> {
  for (let from = after; ;) {
    const page = await store.list(prefix, { after: from, limit: limits.storeListMax });
    yield* page.objects;
    if (page.next === undefined) return;
    from = page.next;
  }
}

/** The key that sorts right behind everything in a folder whose name ends with a slash. */
export function behindFolder(folder: string): string {
  return `${folder.slice(0, -1)}0`;
}

/** The names of the folders that lie under the prefix, and of objects that lie there in no folder; one request each. */
export async function* foldersUnder(
  store: ObjectStore,
  prefix: string,
): AsyncGenerator<{ readonly name: string; readonly isFolder: boolean }, void> {
  for (let after: string | undefined; ;) {
    const page = await store.list(prefix, { after, limit: 1 });
    const key = page.objects[0]?.key;
    if (key === undefined && page.next === undefined) return;
    if (key === undefined) {
      after = page.next;
      continue;
    }
    const rest = key.slice(prefix.length);
    const end = rest.indexOf("/");
    yield end < 0 ? { name: rest, isFolder: false } : { name: rest.slice(0, end), isFolder: true };
    after = end < 0 ? key : behindFolder(key.slice(0, prefix.length + end + 1));
  }
}
