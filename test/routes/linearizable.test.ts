/**
 * Several clients at once, each by another wire: what they are told of a transcript, of files, of values on conditions,
 * of proposals and of undone transactions is as if each call had happened at one instant; a repeated call happens once;
 * and the change feed tells every write once, without a gap, in order.
 */
import { hash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Call, isExplained } from "../support/linear-history.ts";
import { seeded } from "../support/random.ts";
import { useService } from "../support/service.ts";
import { watches, Watching } from "../support/watchers.ts";
import { connectWire, type Reply, type Wire } from "../support/wires.ts";

const service = useService();
const seeds = [1, 2, 3, 4];
const clients = 4;
const calls = 7;
let wires: readonly Wire<string>[] = [];

beforeAll(() => {
  wires = [service().wire("rest"), service().wire("grpc"), connectWire(service().address)];
});
afterAll(() => wires.at(-1)?.close());

/** What a client does next, and what it was told. `known` is what the client remembers from before. */
type Step<Act> = (client: Client, known: Map<string, string>) => Promise<Act>;

interface Client {
  readonly random: () => number;
  /** A text that is written once. */
  readonly token: () => string;
  readonly call: (method: string, request: object, headers?: Record<string, string>) => Promise<Reply>;
}

/** Runs the clients at once and gives their calls; the order of the clock is that of this process. */
async function play<Act>(seed: number, step: Step<Act>): Promise<readonly Call<Act>[]> {
  let clock = 0;
  let tokens = 0;
  const history: Call<Act>[] = [];
  await Promise.all(
    Array.from({ length: clients }, async (_, number) => {
      const wire = wires[(number + seed) % wires.length]!;
      const client = {
        random: seeded(seed * 100 + number),
        token: () => `t${seed}-${++tokens}`,
        call: (method: string, request: object, headers?: Record<string, string>) =>
          wire.call(method, request, headers),
      };
      const known = new Map<string, string>();
      for (let call = 0; call < calls; call++) {
        const start = ++clock;
        const act = await step(client, known);
        history.push({ start, end: ++clock, act });
      }
    }),
  );
  return history;
}

/** The outcome of a call that may only succeed or be refused as these codes say. */
function outcomeOf({ code, message }: Reply, ...refusals: readonly string[]): "ok" | "refused" {
  expect(["ok", ...refusals], message).toContain(code);
  return code === "ok" ? "ok" : "refused";
}

function pick<One>(random: () => number, ...of: readonly One[]): One {
  return of[Math.floor(random() * of.length)]!;
}

type Turn = readonly [seq: number, content: string];
type TurnAct =
  | { readonly kind: "append"; readonly turns: readonly Turn[] }
  | { readonly kind: "replace"; readonly last: number; readonly turns: readonly Turn[] | undefined }
  | { readonly kind: "delete"; readonly deleted: number }
  | { readonly kind: "list"; readonly turns: readonly Turn[] };

function afterTurn(
  state: { next: number; turns: readonly Turn[] },
  act: TurnAct,
): { next: number; turns: readonly Turn[] } | "impossible" {
  const append = (before: readonly Turn[], turns: readonly Turn[]): typeof state | "impossible" =>
    turns.every(([seq], at) => seq === state.next + at)
      ? { next: state.next + turns.length, turns: [...before, ...turns] }
      : "impossible";
  switch (act.kind) {
    case "append":
      return append(state.turns, act.turns);
    case "replace": {
      const isLast = state.turns.at(-1)?.[0] === act.last;
      if (!act.turns) return isLast ? "impossible" : state;
      return isLast ? append(state.turns.slice(0, -1), act.turns) : "impossible";
    }
    case "delete":
      if (act.deleted !== Math.min(1, state.turns.length)) return "impossible";
      return { ...state, turns: state.turns.slice(0, -1) };
    case "list":
      return JSON.stringify(act.turns) === JSON.stringify(state.turns) ? state : "impossible";
  }
}

const turnSteps =
  (at: object): Step<TurnAct> =>
  async ({ random, token, call }, known) => {
    const contents = [token(), token()].slice(0, 1 + Math.floor(random() * 2));
    const turns = contents.map((content) => ({ role: "user", content }));
    const told = ({ body }: Reply): readonly Turn[] =>
      (body.turns as { seq: number }[]).map(({ seq }, index) => [seq, contents[index]!]);
    const kind = pick(random, "append", "append", "replace", "delete", "list");
    if (kind === "append") {
      const reply = await call("DataService.AppendTurns", { ...at, turns });
      outcomeOf(reply);
      known.set("last", String(told(reply).at(-1)![0]));
      return { kind, turns: told(reply) };
    }
    if (kind === "replace" && known.has("last")) {
      const last = Number(known.get("last"));
      const reply = await call("DataService.ReplaceTurns", { ...at, expected: [{ seq: last }], turns });
      return { kind, last, turns: outcomeOf(reply, "conflict") === "ok" ? told(reply) : undefined };
    }
    if (kind === "delete") {
      const reply = await call("DataService.DeleteTurns", { ...at, last: 1 });
      outcomeOf(reply);
      return { kind, deleted: reply.body.deleted as number };
    }
    const reply = await call("DataService.ListTurns", { ...at, limit: 1_000 });
    outcomeOf(reply);
    const listed = (reply.body.turns as { seq: number; content: string }[]).map(({ seq, content }): Turn => [
      seq,
      content,
    ]);
    if (listed.length > 0) known.set("last", String(listed.at(-1)![0]));
    return { kind: "list", turns: listed };
  };

const paths = ["d/a", "d/b"];
type Files = Readonly<Record<string, string>>;
type FileAct =
  | {
      readonly kind: "put";
      readonly path: string;
      readonly text: string;
      readonly over: "any" | "none" | { readonly hash: string };
      readonly outcome: string;
    }
  | {
      readonly kind: "edit";
      readonly path: string;
      readonly from: string;
      readonly to: string;
      readonly outcome: string;
    }
  | { readonly kind: "move"; readonly path: string; readonly to: string; readonly outcome: string }
  | { readonly kind: "get"; readonly path: string; readonly text: string | undefined };

function without(files: Files, path: string): Files {
  return Object.fromEntries(Object.entries(files).filter(([name]) => name !== path));
}

function afterFile(files: Files, act: FileAct): Files | "impossible" {
  const there = files[act.path];
  if (act.kind === "get") return there === act.text ? files : "impossible";
  const isDue = ((): boolean => {
    if (act.kind === "edit") return there?.includes(act.from) === true;
    if (act.kind === "move" || act.over === "any") return act.kind === "put" || there !== undefined;
    return act.over === "none" ? there === undefined : there !== undefined && hash("sha256", there) === act.over.hash;
  })();
  if ((act.outcome === "ok") !== isDue) return "impossible";
  if (!isDue) return files;
  const sorted = (one: Files): Files => Object.fromEntries(Object.entries(one).toSorted());
  if (act.kind === "move") return sorted({ ...without(files, act.path), [act.to]: there! });
  return sorted({ ...files, [act.path]: act.kind === "put" ? act.text : there!.replace(act.from, act.to) });
}

const fileSteps =
  (db: string): Step<FileAct> =>
  async ({ random, token, call }, known) => {
    const path = pick(random, ...paths);
    const last = known.get(path);
    const kind = pick(random, "put", "put", "edit", "move", "get");
    if (kind === "put") {
      const text = token();
      const over = pick<"any" | "none" | { readonly hash: string }>(
        random,
        "any",
        "none",
        ...(last === undefined ? [] : [{ hash: hash("sha256", last) }]),
      );
      const condition = over === "any" ? {} : over === "none" ? { if_absent: true } : { if_match: over.hash };
      const reply = await call("FileService.PutFile", { db, path, text, ...condition });
      const outcome = outcomeOf(reply, "conflict");
      if (outcome === "ok") known.set(path, text);
      return { kind, path, text, over, outcome };
    }
    if (kind === "edit" && last !== undefined) {
      const to = token();
      const edits = [{ old_text: last, text: to }];
      const reply = await call("FileService.EditFile", { db, path, edits });
      const outcome = outcomeOf(reply, "conflict", "not_found");
      if (outcome === "ok") known.set(path, to);
      return { kind, path, from: last, to, outcome };
    }
    if (kind === "move") {
      const to = paths.find((one) => one !== path)!;
      const reply = await call("FileService.MoveFiles", { db, path, to, overwrite: true });
      return { kind, path, to, outcome: outcomeOf(reply, "not_found") };
    }
    const reply = await call("FileService.GetFile", { db, path });
    const text = outcomeOf(reply, "not_found") === "ok" ? (reply.body.text as string) : undefined;
    if (text !== undefined) known.set(path, text);
    return { kind: "get", path, text };
  };

interface Value {
  readonly text: string | null;
}
type ValueAct =
  /** `over` is the text that was there as far as the client knew; null for none. */
  | { readonly kind: "put"; readonly text: string; readonly over: string | null; readonly outcome: string }
  | { readonly kind: "get"; readonly text: string | null };

function afterValue({ text }: Value, act: ValueAct): Value | "impossible" {
  if (act.kind === "get") return act.text === text ? { text } : "impossible";
  if ((act.outcome === "ok") !== (act.over === text)) return "impossible";
  return { text: act.outcome === "ok" ? act.text : text };
}

/** Every write is sent twice at once with its key, on a condition that only one of them can meet. */
const valueSteps =
  (at: object): Step<ValueAct> =>
  async ({ random, token, call }, known) => {
    if (random() < 0.4) {
      const reply = await call("DataService.GetValue", at);
      const text = outcomeOf(reply, "not_found") === "ok" ? String(reply.body) : null;
      known.set("text", JSON.stringify(text));
      return { kind: "get", text };
    }
    const text = token();
    const over = JSON.parse(known.get("text") ?? "null") as string | null;
    const condition = over === null ? { if_absent: true } : { if_match: hash("sha256", over) };
    const once = (): Promise<Reply> =>
      call("DataService.PutValue", { ...at, value: Buffer.from(text), ...condition }, { "idempotency-key": text });
    const [first, second] = await Promise.all([once(), once()]);
    const outcome = outcomeOf(first!, "conflict");
    expect(outcomeOf(second!, "conflict"), "both answers are of one write").toBe(outcome);
    if (outcome === "ok") {
      expect(first!.txid).toBe(second!.txid);
      expect([first!.isRepeat, second!.isRepeat].filter(Boolean)).toHaveLength(1);
      known.set("text", JSON.stringify(text));
    }
    return { kind: "put", text, over, outcome };
  };

type Standing = Readonly<Record<string, string>>;
type ReviewAct =
  | { readonly kind: "review"; readonly results: readonly (readonly [id: string, status: string])[] }
  | { readonly kind: "list"; readonly proposed: readonly string[] };

function afterReview(state: Standing, act: ReviewAct): Standing | "impossible" {
  if (act.kind === "list") {
    const proposed = Object.keys(state).filter((id) => state[id] === "proposed");
    return JSON.stringify(proposed.toSorted()) === JSON.stringify(act.proposed) ? state : "impossible";
  }
  const next = { ...state };
  for (const [id, status] of act.results) {
    if ((status === "unknown") === (next[id] === "proposed")) return "impossible";
    if (status !== "unknown") next[id] = status;
  }
  return next;
}

const reviewSteps =
  (profile: object, ids: readonly string[]): Step<ReviewAct> =>
  async ({ random, call }) => {
    if (random() < 0.4) {
      const reply = await call("MemoryService.ListMemories", { ...profile, status: "proposed", limit: 100 });
      outcomeOf(reply);
      return { kind: "list", proposed: (reply.body.memories as { id: string }[]).map(({ id }) => id).toSorted() };
    }
    const some = [...new Set([pick(random, ...ids), pick(random, ...ids)])];
    const verdict = pick(random, "approve", "reject");
    const reply = await call("MemoryService.ReviewMemory", { ...profile, ids: some, verdict });
    outcomeOf(reply);
    const results = reply.body.results as { id: string; status: string }[];
    return { kind: "review", results: results.map(({ id, status }) => [id, status]) };
  };

type Texts = Readonly<Record<string, string | null>>;
interface Ledger {
  readonly now: Texts;
  /** What each transaction changed, and from what. Writes of one moment share one. */
  readonly made: Readonly<Record<string, { readonly before: Texts; readonly after: Texts }>>;
}
type UndoAct =
  | { readonly kind: "put"; readonly texts: Texts; readonly txid: number }
  | { readonly kind: "undo"; readonly undone: number; readonly txid: number | undefined }
  | { readonly kind: "get"; readonly texts: Texts };

function afterUndo({ now, made }: Ledger, act: UndoAct): Ledger | "impossible" {
  const write = (texts: Texts, txid: number): Ledger => {
    const own = made[txid] ?? { before: {}, after: {} };
    const before = { ...Object.fromEntries(Object.keys(texts).map((key) => [key, now[key] ?? null])), ...own.before };
    return { now: { ...now, ...texts }, made: { ...made, [txid]: { before, after: { ...own.after, ...texts } } } };
  };
  const isNow = (texts: Texts): boolean => Object.keys(texts).every((key) => (now[key] ?? null) === texts[key]);
  if (act.kind === "put") return write(act.texts, act.txid);
  if (act.kind === "get") return isNow(act.texts) ? { now, made } : "impossible";
  const own = made[act.undone];
  if (!own) return "impossible";
  if (act.txid === undefined) return isNow(own.after) ? "impossible" : { now, made };
  return isNow(own.after) ? write(own.before, act.txid) : "impossible";
}

const keys = ["x", "y", "z"];
const undoSteps =
  (db: string): Step<UndoAct> =>
  async ({ random, token, call }, known) => {
    const [kind, txid] = [pick(random, "put", "put", "undo", "undo", "get"), known.get("txid")];
    if (kind === "undo" && txid !== undefined) {
      const reply = await call("ChangeService.Undo", { db, txid: Number(txid) });
      const isDone = outcomeOf(reply, "conflict") === "ok";
      // Its own undo comes next, where nobody comes between.
      if (isDone) known.set("txid", String(reply.body.txid));
      return { kind, undone: Number(txid), txid: isDone ? (reply.body.txid as number) : undefined };
    }
    if (kind === "get") {
      const reply = await call("DataService.GetValues", { db, ns: "n", keys });
      outcomeOf(reply);
      const entries = reply.body.entries as { key: string; text?: string }[];
      const found = new Map(entries.map(({ key, text }) => [key, text ?? null]));
      return { kind, texts: Object.fromEntries(keys.map((key) => [key, found.get(key) ?? null])) };
    }
    const text = token();
    const some = [...new Set([pick(random, ...keys), pick(random, ...keys)])];
    const items = some.map((key) => ({ key, text }));
    const reply = await call("DataService.PutValues", { db, ns: "n", items });
    outcomeOf(reply);
    known.set("txid", String(reply.body.txid));
    return {
      kind: "put",
      texts: Object.fromEntries(some.map((key) => [key, text])),
      txid: reply.body.txid as number,
    };
  };

/** Runs, and how many acts of a kind must have happened together for the test to be one. */
function expectExplained<State, Act extends { readonly kind: string }>(
  history: readonly Call<Act>[],
  initial: State,
  after: (state: State, act: Act) => State | "impossible",
): void {
  if (!isExplained(history, initial, after))
    expect.fail(`no order explains ${history.map((call) => JSON.stringify(call)).join("\n")}`);
}

describe.each(seeds)("of several clients at once (seed %i)", (seed) => {
  test("a transcript is one list", async () => {
    const history = await play(seed, turnSteps({ db: await service().database(), session: "s" }));
    expectExplained(history, { next: 1, turns: [] }, afterTurn);
  });

  test("files are one tree", async () => {
    expectExplained(await play(seed, fileSteps(await service().database())), {}, afterFile);
  });

  test("a value on a condition is written by one of them, and a repeated write once", async () => {
    const db = await service().database();
    expectExplained(await play(seed, valueSteps({ db, ns: "n", key: "k" })), { text: null }, afterValue);
  });

  test("a proposal is reviewed once", async () => {
    const profile = service().profile();
    const memories = Array.from({ length: 8 }, (_, at) => ({
      ...{ type: "event", summary: `proposal ${at}`, content: {}, status: "proposed" },
    }));
    const { body } = await wires[0]!.call("MemoryService.Ingest", { ...profile, memories });
    const ids = (body.results as { id: string }[]).map(({ id }) => id);
    const initial = Object.fromEntries(ids.map((id) => [id, "proposed"]));
    expectExplained(await play(seed, reviewSteps(profile, ids)), initial, afterReview);
  });

  test("an undo happens where nothing has touched what it undoes, once, and wholly", async () => {
    expectExplained(await play(seed, undoSteps(await service().database())), { now: {}, made: {} }, afterUndo);
  });

  test("the change feed tells every write once, without a gap, in order", async () => {
    const db = await service().database();
    const watchings = Object.values(watches).map(
      (watch) => new Watching(watch, service().address, { db, after: 0 }, {}),
    );
    onTestFinished(() => watchings.forEach((watching) => watching.stop()));
    const told = new Map<string, number>();
    await play(seed, async ({ random, token, call }) => {
      const name = token();
      const isFile = random() < 0.5;
      const reply = isFile
        ? await call("FileService.PutFile", { db, path: name, text: "x" })
        : await call("DataService.PutValue", { db, ns: "n", key: name, value: Buffer.from("x") });
      outcomeOf(reply);
      told.set(name, reply.txid!);
      return { kind: "write" };
    });
    const last = Math.max(...told.values());
    for (const watching of watchings) {
      await watching.until(({ transactions }) => transactions.at(-1)?.txid === last);
      let position = 0;
      const seen: [string, number][] = [];
      for (const { txid, afterTxid, changes } of watching.transactions) {
        expect(afterTxid).toBe(position);
        position = txid;
        for (const change of changes) seen.push([String(change["key"] ?? change["path"]), txid]);
      }
      expect(seen.toSorted()).toEqual([...told].toSorted());
    }
  });
});

test("the judge sees a lost write, a repeat and a torn undo", () => {
  const at = (start: number, act: UndoAct): Call<UndoAct> => ({ start, end: start + 0.5, act });
  const put = at(1, { kind: "put", texts: { x: "1", y: "1" }, txid: 1 });
  const explains = (...more: readonly Call<UndoAct>[]): boolean =>
    isExplained([put, ...more], { now: {}, made: {} }, afterUndo);
  const undone = at(2, { kind: "undo", undone: 1, txid: 2 });
  expect(explains(undone, at(3, { kind: "get", texts: { x: null, y: null } }))).toBe(true);
  expect(explains(undone, at(3, { kind: "get", texts: { x: null, y: "1" } }))).toBe(false);
  expect(explains(undone, at(3, { kind: "undo", undone: 1, txid: 3 }))).toBe(false);
  expect(explains(undone, at(3, { kind: "undo", undone: 1, txid: undefined }))).toBe(true);
  expect(explains(at(2, { kind: "undo", undone: 1, txid: undefined }))).toBe(false);
});
