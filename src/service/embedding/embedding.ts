/**
 * Vectors for text that comes without: before a write, before a recall, and afterwards for what was left out.
 *
 * Always true:
 * - policy is asked before any text leaves, and what left or was not let out is told to the audit stream, in sizes;
 *   a model that the node runs itself is sent nothing, so neither is done for it
 * - nothing is made that could not be stored or compared, as the database's vectors are another model's or the callers'
 *   own
 * - what fails here fails no call
 *
 * It works outside the databases' queues and within a time of its own.
 *
 * Must not know: wires, how vectors are made.
 */
import type { Embedder, EmbedAnswer, LocalEmbedderMeasures } from "../../ai/embedder.ts";
import type { EmbedUse } from "../../ai/embedding-models.ts";
import type { ModelFailureKind } from "../../ai/model-failure.ts";
import { utf8Length } from "../../base/bytes.ts";
import { assert } from "../../base/faults/assert.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import type { AuditEntry } from "../../control/audit/audit-entry.ts";
import type { AuditLog } from "../../control/audit/audit-log.ts";
import type { EffectivePolicy, Policies } from "../../control/databases/policies.ts";
import type { EnginePort } from "../../engine/api/engine-port.ts";
import { memoryText, turnText, type SpaceState } from "../../model/embedding.ts";
import type { DerivedInput } from "../../model/lineage/derivation.ts";
import type { EmbeddedKind, Maker } from "../../model/memory/memory-vectors.ts";
import type { RecallInput } from "../../model/recall.ts";
import { Backfill, type Place, type Step, type Stepped } from "./backfill.ts";
import { engineOptions, type Context } from "../call/context.ts";

/** How long a write or a recall waits for its vectors, and never longer than half of the time it has left. */
const embedWriteMs = 10_000;
export const embedRecallMs = 3_000;

export interface EmbeddingOptions {
  readonly embedder: Embedder;
  /** Whether the embedder is the operator's own, as policies ask. */
  readonly selfHosted: boolean;
  readonly world: World;
  readonly log: Log;
  readonly engine: Pick<EnginePort, "read" | "write">;
  readonly policies: Pick<Policies, "effective">;
  readonly audit: Pick<AuditLog, "record">;
}

/** An input with its vectors, as far as they could be made. */
export interface Prepared<Input> {
  readonly input: Input;
  /** To be called when the input is written: what is missing is made up for. */
  readonly written: () => void;
}

const nothingToDo = (): void => {};

export class Embedding {
  /** The name and floor that go with the embedder's vectors. */
  readonly maker: Maker;
  readonly selfHosted: boolean;
  /** Whether texts leave the node for their vectors: what stays is no egress, whatever a policy says of egress. */
  readonly sendsTexts: boolean;
  readonly #options: EmbeddingOptions;
  readonly #backfill: Backfill;
  #lastFailure: ModelFailureKind | undefined;

  constructor(options: EmbeddingOptions) {
    const { embedder, selfHosted, world, log } = options;
    this.maker = { name: embedder.name, floor: embedder.floor };
    this.selfHosted = selfHosted;
    this.sendsTexts = embedder.endpointHost !== undefined;
    this.#options = options;
    this.#backfill = new Backfill({
      world,
      log,
      isAwake: () => embedder.isAwake,
      permits: async ({ namespace, profile }) => this.permits(await options.policies.effective(namespace, profile)),
      step: (step) => this.step(step),
    });
  }

  /** Of a model that the node runs itself; undefined for another. */
  get measures(): LocalEmbedderMeasures | undefined {
    return this.#options.embedder.measures;
  }

  /** Ends what is under way; nothing is begun any more. */
  close(): void {
    this.#backfill.close();
    this.#options.embedder.close();
  }

  /** Whether the policy lets this embedder have text. */
  permits({ egress }: Pick<EffectivePolicy, "egress">): boolean {
    if (!this.sendsTexts) return true;
    return egress.embed === "allow" || (egress.embed === "self_hosted_only" && this.selfHosted);
  }

  /** The memories of an ingest, with vectors for those that come without one; never for tasks. */
  async memories(
    context: Context,
    place: Place,
    memories: readonly DerivedInput[],
  ): Promise<Prepared<readonly DerivedInput[]>> {
    const bare = memories.flatMap((memory, at) =>
      memory.embedding === undefined && memory.type !== "task" ? [at] : [],
    );
    const texts = bare.map((at) => memoryText(memories[at]!));
    const made = await this.#forWrite(context, place, "memory", texts);
    if (made === undefined) return { input: memories, written: nothingToDo };
    const input = [...memories];
    for (const [index, at] of bare.entries()) input[at] = withVector(memories[at]!, this.maker, made.vectors[index]);
    return { input, written: made.written };
  }

  /** A turn that comes without a vector, with one. */
  async turn<Turn extends { readonly role?: string; readonly content: string }>(
    context: Context,
    place: Place,
    turn: Turn,
  ): Promise<Prepared<Turn>> {
    const text = turnText(turn);
    const made = await this.#forWrite(context, place, "turn", text === "" ? [] : [text]);
    if (made === undefined) return { input: turn, written: nothingToDo };
    return { input: withVector(turn, this.maker, made.vectors[0]), written: made.written };
  }

  /** Turns, with vectors for those that come without one. */
  async turns<Turn extends { readonly content: string; readonly embedding?: Float32Array | undefined }>(
    context: Context,
    place: Place,
    turns: readonly Turn[],
  ): Promise<Prepared<readonly Turn[]>> {
    const bare = turns.flatMap((turn, at) => {
      const text = turn.embedding === undefined ? turnText(turn) : "";
      return text === "" ? [] : [{ at, text }];
    });
    const made = await this.#forWrite(
      context,
      place,
      "turn",
      bare.map(({ text }) => text),
    );
    if (made === undefined) return { input: turns, written: nothingToDo };
    const input = [...turns];
    for (const [index, { at }] of bare.entries()) input[at] = withVector(turns[at]!, this.maker, made.vectors[index]);
    return { input, written: made.written };
  }

  /** What is asked, with the vector of its query when it comes without one and there are vectors to compare it with. */
  async recall(context: Context, place: Place, input: RecallInput): Promise<RecallInput> {
    const { query = "", embedding, includeTurns } = input;
    if (embedding !== undefined || query.trim() === "") return input;
    if (!(await this.#isAllowed(place, context.identity, [query]))) return input;
    const { value } = await this.#options.engine.read(
      place.target,
      "embedding.spaces",
      undefined,
      engineOptions(context),
    );
    this.#backfill.note(place);
    const isOurs = (space: SpaceState): boolean => space.exists && space.embeddedBy === this.maker.name;
    // Named without a vector it lets the answer say that the memories' vectors are another model's.
    if (!isOurs(value.memory) && !(includeTurns && isOurs(value.turn)))
      return { ...input, embeddedBy: this.maker.name };
    const { vectors } = await this.#embed(
      place,
      context.identity,
      [query],
      "query",
      this.#deadline(context, embedRecallMs),
    );
    return vectors[0] ? { ...input, embedding: vectors[0], embeddedBy: this.maker.name } : input;
  }

  /** Makes the vectors of some of what has none yet. Policy has been asked. */
  async step({ place, identity, kind, after, options }: Step): Promise<Stepped> {
    const { engine } = this.#options;
    const { target } = place;
    const { value: page, ...state } = await engine.read(
      target,
      "embedding.missing",
      { kind, embeddedBy: this.maker.name, after },
      options,
    );
    if (page.items.length === 0) return { ...state, filled: 0, left: 0, failure: undefined, next: page.next };
    const deadlineMs = Math.min(options.deadlineMs, this.#options.world.monotonicMs() + embedWriteMs);
    const answer = await this.#embed(
      place,
      identity,
      page.items.map(({ text }) => text),
      "document",
      deadlineMs,
    );
    const items = page.items.flatMap(({ row, createdAt }, at) => {
      const embedding = answer.vectors[at];
      return embedding ? [{ row, createdAt, embedding }] : [];
    });
    // A text that the model does not take is passed over: it must not keep the others from their vectors.
    const failure = answer.failure === "rejected" ? undefined : answer.failure;
    const told = { left: page.items.length - items.length, failure, next: page.next };
    if (items.length === 0) return { ...state, ...told, filled: 0 };
    const bytes = items.reduce((sum, { embedding }) => sum + embedding.byteLength, 0);
    const { value, ...stored } = await engine.write(
      target,
      "embedding.fill",
      { kind, embeddedBy: this.maker, items },
      { ...options, bytes },
    );
    return { ...stored, ...told, filled: value.filled };
  }

  /** Vectors of what is about to be written; undefined when the database has no place for any. */
  async #forWrite(
    context: Context,
    place: Place,
    kind: EmbeddedKind,
    texts: readonly string[],
  ): Promise<(Pick<EmbedAnswer, "vectors"> & Pick<Prepared<never>, "written">) | undefined> {
    if (texts.length === 0 || !(await this.#isAllowed(place, context.identity, texts))) return undefined;
    const { value } = await this.#options.engine.read(
      place.target,
      "embedding.spaces",
      undefined,
      engineOptions(context),
    );
    const space = value[kind];
    if (space.exists && space.embeddedBy !== this.maker.name) return { vectors: [], written: nothingToDo };
    const { vectors } = await this.#embed(
      place,
      context.identity,
      texts,
      "document",
      this.#deadline(context, embedWriteMs),
    );
    const written = vectors.includes(undefined) ? () => this.#backfill.missed(place) : () => this.#backfill.note(place);
    return { vectors, written };
  }

  /** On world.monotonicMs(): some of the call's time is left for the database. */
  #deadline(context: Context, mostMs: number): number {
    const nowMs = this.#options.world.monotonicMs();
    return nowMs + Math.min(mostMs, Math.max(0, context.deadlineMs - nowMs) / 2);
  }

  /** Whether the embedder may have the texts; when not, that is told. */
  async #isAllowed(place: Place, identity: AuditEntry["identity"], texts: readonly string[]): Promise<boolean> {
    if (!this.sendsTexts) return true;
    const policy = await this.#options.policies.effective(place.namespace, place.profile);
    if (this.permits(policy)) return true;
    const inputBytes = texts.reduce((sum, text) => sum + utf8Length(text), 0);
    this.#tell(
      place,
      identity,
      { outcome: "denied", errorCode: policy.known ? "forbidden" : "unavailable" },
      { inputItems: texts.length, inputBytes, outputItems: 0, durationMs: 0 },
    );
    return false;
  }

  async #embed(
    place: Place,
    identity: AuditEntry["identity"],
    texts: readonly string[],
    use: EmbedUse,
    deadlineMs: number,
  ): Promise<EmbedAnswer> {
    const { embedder, world, log } = this.#options;
    const startMs = world.monotonicMs();
    const answer = await embedder.embed(texts, use, deadlineMs);
    const outputItems = answer.vectors.filter((vector) => vector !== undefined).length;
    if (answer.sentItems > 0) {
      const ended =
        answer.failure === undefined
          ? { outcome: "ok" as const }
          : { outcome: "error" as const, errorCode: "unavailable" };
      this.#tell(place, identity, ended, {
        inputItems: answer.sentItems,
        inputBytes: answer.sentBytes,
        outputItems,
        durationMs: Math.round(world.monotonicMs() - startMs),
      });
    }
    // Said when it changes, not for every call of an outage.
    if (answer.failure !== this.#lastFailure) {
      if (answer.failure === undefined) log.info("the embedder answers again");
      else
        log.warn("the embedder gave no vectors: writes and recalls go on without", {
          reason: answer.failure,
          endpoint: embedder.endpointHost,
        });
    }
    this.#lastFailure = answer.failure;
    return answer;
  }

  #tell(
    { namespace, profile, target }: Place,
    identity: AuditEntry["identity"],
    ended: Pick<AuditEntry, "outcome" | "errorCode">,
    sizes: Sizes,
  ): void {
    const { provider, model, endpointHost } = this.#options.embedder;
    assert(endpointHost !== undefined, "what is told has left the node, or would have");
    const egress = { provider, model, endpointHost, selfHosted: this.selfHosted, ...sizes };
    this.#options.audit.record({
      namespace,
      profile,
      branch: target.branch,
      identity,
      action: "ai.embed",
      ...ended,
      egress,
    });
  }
}

type Sizes = Pick<NonNullable<AuditEntry["egress"]>, "inputItems" | "inputBytes" | "outputItems" | "durationMs">;

/** The same with the maker, who would have made its vector, and with the vector where there is one. */
function withVector<Input extends object>(
  input: Input,
  embeddedBy: Maker,
  embedding: Float32Array | undefined,
): Input & { readonly embeddedBy: Maker; readonly embedding?: Float32Array } {
  return embedding ? { ...input, embeddedBy, embedding } : { ...input, embeddedBy };
}
