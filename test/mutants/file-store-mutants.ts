/** Faults in the file store: of its order of steps, which is all that its promises rest on. */
import type { Mutant, Suite } from "./mutant.ts";

const faults: Suite = { file: "test/unit/store/file-store-faults.test.ts" };
const races: Suite = { file: "test/unit/store/file-store-races.test.ts" };
const [versions, system, folders, store, drafts] = ["store/version-files.ts", "store/file-system.ts", "store/durable-folders.ts", "store/file-store.ts", "store/drafts.ts"] as const;

export const fileStoreMutants: readonly Mutant[] = [
  { name: "object-not-synced", why: "A loss of power leaves an object that was answered as stored torn or empty.", file: system, find: "  await draft.sync();\n", replace: "", suites: [faults] },
  {
    name: "count-of-a-write-ignored",
    why: "A nearly full disk cuts an object that is then reported as stored.",
    file: system,
    find: "    done += written;\n    left = after(left, written);\n",
    replace: "    done = total;\n    left = after(left, total);\n",
    suites: [faults],
  },
  { name: "size-not-looked-at", why: "A disk that claims more than it took cuts an object.", file: system, find: "  if (bytes !== total) throw", replace: "  if (bytes < 0) throw", suites: [faults] },
  {
    name: "link-not-synced",
    why: "A loss of power takes back a put that was answered.",
    file: versions,
    find: "Promise.all([this.list(place), this.#files.syncDirectory(place.directory)]);",
    replace: "Promise.all([this.list(place)]);",
    suites: [faults],
  },
  {
    name: "first-version-not-synced",
    why: "A loss of power takes a new key, though its put was answered.",
    file: versions,
    find: "      await this.#folders.sync(dirname(place.directory));\n      return { kind: \"stored\"",
    replace: "      return { kind: \"stored\"",
    suites: [faults],
  },
  { name: "made-directory-not-synced", why: "A loss of power leaves a key without the version that was put.", file: versions, find: "    await this.#files.syncDirectory(made);\n", replace: "", suites: [faults] },
  { name: "folders-above-not-synced", why: "A loss of power takes the folder of a new database with all that was put.", file: folders, find: "if (path === this.#root || this.#known.get(path) === identity) break;", replace: "break;", suites: [faults] },
  {
    name: "replacement-trusts-the-first-writer",
    why: "Whoever made the key may have died before its folder was synced: a loss of power takes key and replacement.",
    file: versions,
    find: ", ...(versions.length > 1 ? [] : [this.#folders.sync(dirname(place.directory))])",
    replace: "",
    suites: [faults],
  },
  { name: "read-back-not-synced", why: "A put that was found landed after a failed fsync is lost with the power.", file: versions, find: "      if (facts.links > 1) await this.#makeDurable(place, facts);\n", replace: "", suites: [faults] },
  {
    name: "superseded-goes-first",
    why: "A loss of power takes the old version and the new one.",
    file: versions,
    find: "    await this.#files.syncDirectory(place.directory);\n    await this.#drafts.revoke",
    replace: "    await this.#drafts.revoke",
    suites: [faults],
  },
  { name: "tombstone-goes-first", why: "A loss of power brings back what was deleted.", file: versions, find: "    if (versions.length > 1) await this.#files.syncDirectory(place.directory);\n", replace: "", suites: [faults] },
  { name: "nothing-revoked", why: "A writer that slept takes the number of a version that was removed, and believes that it has won.", file: versions, find: "    await this.#drafts.revoke(place.key);\n    for (const", replace: "    for (const", suites: [races] },
  {
    name: "temporary-after-the-look",
    why: "The same: what is taken away from a sleeping writer is not there yet.",
    file: versions,
    find: "    const temporary = await this.#drafts.begin(place.key);\n    let isInDoubt = false;\n    try {\n      const versions = await this.list(place);\n",
    replace: "    const versions = await this.list(place);\n    const temporary = await this.#drafts.begin(place.key);\n    let isInDoubt = false;\n    try {\n",
    suites: [races],
  },
  { name: "no-look-after-the-link", why: "A writer that slept while others moved far on believes that it has won.", file: versions, find: "      if (versions.includes(version) && versions.at(-1)! < version + versionsKept) {", replace: "      if (version > 0) {", suites: [races] },
  { name: "link-behind-a-tombstone", why: "A writer that found a deleted object slips into the next one of that key.", file: store, find: "      if (isDead !== true || versions.length === 0) return isDead;\n", replace: "      if (versions.length >= 0) return isDead;\n", suites: [races] },
  { name: "lives-begin-at-one", why: "A version of a deleted object fits a later one of the same key.", file: versions, find: "  return (Math.floor(world.nowMs()) % 2 ** 42) * 2 ** 11 + chance + 1;", replace: "  return 1 + chance * 0;", suites: [races] },
  {
    name: "made-directory-emptied-in-place",
    why: "A directory gets its key's name when a purge has just emptied it: a put is answered and nothing is there.",
    file: drafts,
    find: "      const removed = this.newDirectory();\n      await this.#files.rename(made, removed);\n",
    replace: "      const removed = made;\n",
    suites: [races],
  },
];
