/**
 * The file store on a disk that fails at any step, or loses its power there: nothing that was answered is lost, nothing
 * is half there.
 */
import { describe, expect, test } from "vitest";
import { FileStore } from "../../../../src/store/file/file-store.ts";
import { putUntilKnown } from "../../../../src/store/port/sure-put.ts";
import {
  FaultyFiles,
  type Fate,
  type FaultyFilesOptions,
  type Lies,
  type Loss,
  type Step,
} from "../../../support/faulty-files.ts";
import { seeded } from "../../../support/random.ts";
import { StoreStory, storyRoot, storyWorld } from "../../../support/store-story.ts";

const absent = { kind: "absent" } as const;
const always = (name: boolean, data: ReturnType<Loss["data"]>): Loss => ({ name: () => name, data: () => data });

/** What a power loss may leave: nothing unsynced, everything, one without the other, and mixtures. */
const losses: readonly (() => Loss)[] = [
  () => always(false, "none"),
  () => always(true, "none"),
  () => always(true, "cut"),
  () => always(true, "zeroed"),
  () => always(false, "whole"),
  () => always(true, "whole"),
  ...[1, 2, 3].map((seed) => () => {
    const random = seeded(seed);
    return {
      name: () => random() < 0.5,
      data: () => (["whole", "none", "cut", "zeroed"] as const)[Math.floor(random() * 4)]!,
    };
  }),
];

/** Tells the story with the fate, and looks at what is left, at once and after each kind of power loss. */
async function trial(fate: FaultyFilesOptions["fate"], lies: Lies = {}): Promise<void> {
  const files = new FaultyFiles({ ...(fate && { fate }), lies });
  const story = new StoreStory();
  await story.tell(files);
  files.options = { lies };
  for (const loss of losses) await story.copy().judge(files.lose(loss()));
  if (files.isDown) return;
  await story.judge(files);
  await story.end();
  expect(files.paths().files, "what is left when everything was deleted").toEqual([]);
  expect(files.paths().directories.toSorted()).toEqual(
    [
      ...new Set([
        "/data",
        storyRoot,
        `${storyRoot}/.tmp`,
        ...files.paths().directories.filter((path) => path.endsWith("/.new")),
      ]),
    ].toSorted(),
  );
}

/** How many steps the story has when all goes well. */
async function recordSteps(): Promise<readonly Step[]> {
  const names: Step[] = [];
  await new StoreStory().tell(new FaultyFiles({ fate: (_, name) => (names.push(name), "fine") }));
  return names;
}

const at =
  (step: number, fate: Fate): FaultyFilesOptions["fate"] =>
  (now) =>
    now === step ? fate : "fine";
const needsRoom: ReadonlySet<Step> = new Set<Step>(["create", "mkdir", "write", "link", "rename"]);

/** Every fault that can befall the story, by name. */
async function faults(): Promise<[what: string, fate: FaultyFilesOptions["fate"]][]> {
  const found: [string, FaultyFilesOptions["fate"]][] = [];
  for (const [index, name] of (await recordSteps()).entries()) {
    const step = index + 1;
    const what = `step ${step}, ${name}`;
    for (const fate of ["cut", "cut after", { fails: "EIO" }, { answers: "EIO" }] as const)
      found.push([`${what}: ${JSON.stringify(fate)}`, at(step, fate)]);
    if (needsRoom.has(name)) {
      const isFullUntil = (end: number, now: number, kind: Step): Fate =>
        now > step && now < end && needsRoom.has(kind) ? { fails: "ENOSPC" } : "fine";
      found.push([`${what}: the disk is full for this step`, at(step, { fails: "ENOSPC" })]);
      found.push([
        `${what}: the disk is full from here for a while`,
        (now, kind) =>
          now === step ? (kind === "write" ? { takes: 7 } : { fails: "ENOSPC" }) : isFullUntil(step + 40, now, kind),
      ]);
      found.push([`${what}: takes a part and then all`, at(step, { takes: 7 })]);
    }
    found.push([
      `${what}: the disk is read-only from here for a while`,
      (now, kind) =>
        now >= step && now < step + 25 && !["read", "readdir", "stat"].includes(kind) ? { fails: "EROFS" } : "fine",
    ]);
  }
  return found;
}

/** What is wrong after which fault; no more than so many are looked for. */
async function findings(lies: Lies, enough = Infinity): Promise<string[]> {
  const found: string[] = [];
  for (const [what, fate] of await faults()) {
    if (found.length >= enough) break;
    await trial(fate, lies).catch((error: Error) => found.push(`${what}: ${error.message}`));
  }
  return found;
}

describe("every step of a story", { timeout: 600_000 }, () => {
  test("F17, F44: fails, is carried out in part, or loses its power there, and every promise holds", async () => {
    expect((await recordSteps()).length).toBeGreaterThan(300);
    expect(await findings({})).toEqual([]);
  });

  test.each([
    ["does not sync files", { file: true }],
    ["does not sync directories", { directory: true }],
  ])("the same story on a disk that %s is found out", async (_, lies) => {
    expect(await findings(lies, 10)).toHaveLength(10);
  });
});

test.each([
  ["ENOSPC", "the disk is full"],
  ["EDQUOT", "quota"],
  ["EROFS", "read-only"],
  ["EIO", "failing"],
  ["EMFILE", "too many files"],
])("%s says what it is, and is no outcome in doubt", async (code, word) => {
  const files = new FaultyFiles();
  const store = await FileStore.open(storyRoot, storyWorld(), files);
  const before = files.paths();
  for (const step of ["create", "write", "sync", "mkdir"] as const) {
    files.options = { fate: (_, name) => (name === step ? { fails: code } : "fine") };
    await expect(store.put("a/k", Buffer.from("1"), absent)).rejects.toMatchObject({
      kind: "unavailable",
      message: expect.stringMatching(new RegExp(`${word}.*\\(${code}\\)`)),
    });
    expect(files.paths().files).toEqual(before.files);
  }
});

test("a write that takes a part is gone on with; one that claims what it did not take is found out", async () => {
  const files = new FaultyFiles({ fate: (_, name) => (name === "write" ? { takes: 3 } : "fine") });
  const store = await FileStore.open(storyRoot, storyWorld(), files);
  await store.put("k", Buffer.from("a body of some bytes"), absent);
  expect((await store.get("k"))!.bytes.toString()).toBe("a body of some bytes");
  files.options = { ...files.options, lies: { counts: true } };
  await expect(store.put("l", Buffer.from("a body of some bytes"), absent)).rejects.toMatchObject({
    kind: "unavailable",
    message: expect.stringContaining("of 21 bytes that were written the disk has 3"),
  });
  expect(await store.get("l")).toBeUndefined();
});

describe("a put that landed though its directory could not be synced", () => {
  const lost = always(false, "none");

  test.each(["first", "replacing"])("is synced before it counts as stored (%s)", async (which) => {
    const files = new FaultyFiles();
    const store = await FileStore.open(storyRoot, storyWorld(), files);
    if (which === "replacing") for (const text of ["old", "older"]) await settle(store, text);
    let fails = 0;
    files.options = {
      fate: (_, name, path) =>
        name === "syncDirectory" && !path.includes(".new") && fails++ < 1 ? { fails: "EIO" } : "fine",
    };
    const outcome = await settle(store, "new");
    expect(fails).toBeGreaterThan(1);
    expect(outcome).toMatchObject({ kind: "landed" });
    const after = await FileStore.open(storyRoot, storyWorld(), files.lose(lost));
    expect((await after.get("a/k"))!.bytes.toString()).toBe("new");
  });

  test("is in doubt to every process for as long as it cannot be synced, and leaves no mark after", async () => {
    const files = new FaultyFiles();
    const store = await FileStore.open(storyRoot, storyWorld(), files);
    const other = await FileStore.open(storyRoot, storyWorld(2), files);
    await settle(store, "old");
    files.options = {
      fate: (_, name, path) => (name === "syncDirectory" && path.endsWith("k~") ? { fails: "EIO" } : "fine"),
    };
    await expect(settle(store, "new")).rejects.toMatchObject({
      kind: "unknown_outcome",
      message: expect.stringContaining("failing"),
    });
    await expect(other.get("a/k")).rejects.toMatchObject({ kind: "unavailable" });
    files.options = {};
    expect((await other.get("a/k"))!.bytes.toString()).toBe("new");
    expect(files.paths().files.filter((path) => path.includes(".tmp"))).toEqual([]);
    const after = await FileStore.open(storyRoot, storyWorld(), files.lose(lost));
    expect((await after.get("a/k"))!.bytes.toString()).toBe("new");
  });

  test("by a process that died before it synced anything is made durable by whoever builds on it", async () => {
    const files = new FaultyFiles();
    const dying = await FileStore.open(storyRoot, storyWorld(), files);
    files.options = {
      fate: (_, name, path) => (name === "syncDirectory" && !path.includes(".new") ? { fails: "EIO" } : "fine"),
    };
    await expect(dying.put("a/k", Buffer.from("1"), absent)).rejects.toMatchObject({ kind: "unknown_outcome" });
    files.options = {};
    const next = await FileStore.open(storyRoot, storyWorld(2), files);
    const version = files
      .paths()
      .files.find((path) => path.includes("k~"))!
      .split("/")
      .at(-1)!;
    expect(await next.put("a/k", Buffer.from("2"), { kind: "version", version })).toMatchObject({ kind: "stored" });
    const after = await FileStore.open(storyRoot, storyWorld(3), files.lose(lost));
    expect((await after.get("a/k"))!.bytes.toString()).toBe("2");
  });

  test("by a process that died is made durable before what it superseded is purged", async () => {
    for (let seed = 1; seed <= 30; seed++) {
      const files = new FaultyFiles();
      const store = await FileStore.open(storyRoot, storyWorld(), files);
      await settle(store, "old");
      const { version } = (await store.get("a/k"))!;
      files.options = {
        fate: (_, name, path) => (name === "syncDirectory" && path.endsWith("k~") ? { fails: "EIO" } : "fine"),
      };
      await expect(store.put("a/k", Buffer.from("new"), { kind: "version", version })).rejects.toMatchObject({
        kind: "unknown_outcome",
      });
      let removed = 0;
      files.options = {
        fate: (_, name, path) => (name === "unlink" && path.includes("k~") && ++removed === 1 ? "cut after" : "fine"),
      };
      await expect(store.purgeVersions("")).rejects.toMatchObject({ kind: "unavailable" });
      files.options = {};
      const random = seeded(seed);
      const after = await FileStore.open(
        storyRoot,
        storyWorld(),
        files.lose({ name: () => random() < 0.5, data: () => "none" }),
      );
      expect((await after.get("a/k"))!.bytes.toString()).toBe("new");
    }
  });

  async function settle(store: FileStore, text: string): ReturnType<typeof putUntilKnown> {
    const current = await store.get("a/k");
    return putUntilKnown(
      store,
      "a/k",
      Buffer.from(text),
      current ? { kind: "version", version: current.version } : absent,
    );
  }
});
