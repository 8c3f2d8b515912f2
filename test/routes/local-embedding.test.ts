/** Vectors by a model that the node runs itself, the real one: skipped, by name, where that is not there. */
import { describe, expect, onTestFinished, test } from "vitest";
import { modelResidentBytesMax } from "../../src/ai/local-embedder.ts";
import { Profile } from "../support/embedding-node.ts";
import { listModelProcesses, localModelMissing } from "../support/local-model.ts";
import { readMetrics, sumSamples } from "../support/metrics-text.ts";
import { startNodeProcess, type NodeProcess } from "../support/node-process.ts";
import { ok, startService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const variables = { SERVICE_EMBED_PROVIDER: "local", SERVICE_AUDIT_FLUSH_MS: "20" };

async function startLocal(): Promise<{ readonly service: Service; readonly profile: Profile }> {
  const service = await startService(variables);
  onTestFinished(() => service.close());
  return { service, profile: new Profile(service.wire("rest")) };
}

async function readMetric(node: Pick<Service, "call"> | NodeProcess, name: string): Promise<number> {
  const { text } = await node.call("GET", "/metrics");
  return sumSamples(readMetrics(text), `palimpsest_${name}`);
}

/** Summaries of other things, so that what is found was chosen. */
const others = [
  "The tax return is due on Friday",
  "Her car is in the garage for new brakes",
  "PostgreSQL was upgraded to version 17 last night",
  "The flight to Lisbon leaves at seven in the morning",
];

describe.skipIf(localModelMissing)(`a model of the node's own${localModelMissing ?? ""}`, () => {
  test("what comes without vectors is found by a paraphrase, in memories and in turns", async () => {
    const { profile } = await startLocal();
    await profile.ingest(...["She is allergic to peanuts", ...others].map((summary) => ({ summary })));
    expect(await profile.recall({ query: "What nuts can she not eat?", k: 3 })).toEqual([
      "She is allergic to peanuts: vector",
    ]);
    expect(await profile.recall({ query: "quantum chromodynamics on a lattice" })).toEqual([]);
    await profile.append("s", "my son broke his arm playing football");
    const { body } = await ok(
      profile.wire.call("MemoryService.Recall", {
        ...profile.at,
        query: "Did my kid get hurt in a soccer match?",
        include_turns: true,
      }),
    );
    expect(body.turns.map(({ content }: { content: unknown }) => content)).toEqual([
      "my son broke his arm playing football",
    ]);
  });

  test("nothing leaves, so no policy of egress stops it and nothing is told of egress", async () => {
    const { service, profile } = await startLocal();
    await profile.policy({ ai_egress: { embed: "deny" }, audit: { enabled: true, include_reads: true } });
    await profile.ingest({ summary: "She is allergic to peanuts" });
    expect(await profile.recall({ query: "What nuts can she not eat?" })).toEqual([
      "She is allergic to peanuts: vector",
    ]);
    expect(await profile.reembed()).toMatchObject({ embedded: 0, left: 0 });
    await expect.poll(async () => (await profile.events("memory.")).length).toBeGreaterThan(0);
    expect(await profile.events("ai.")).toEqual([]);
    expect(await readMetric(service, "egress_requests_total")).toBe(0);
    expect(await readMetric(service, "embedder_texts_total")).toBe(2);
  });

  test("the first text starts its process; killed, it stops no write, and what was missed is made up for", async () => {
    const { service, profile } = await startLocal();
    expect([listModelProcesses(process.pid), await readMetric(service, "embedder_up")]).toEqual([[], 0]);
    await profile.ingest({ summary: "The tax return is due on Friday" });
    const [pid, ...more] = listModelProcesses(process.pid);
    expect(more).toEqual([]);
    process.kill(pid!, "SIGKILL");
    await expect.poll(() => readMetric(service, "embedder_losses_total"), { timeout: 20_000 }).toBe(1);
    expect(await profile.ingest({ summary: "She is allergic to peanuts" })).toEqual([undefined]);
    expect(await profile.recall({ query: "peanuts" })).toEqual([
      expect.stringMatching(/^She is allergic to peanuts: keyword/),
    ]);
    await expect
      .poll(() => profile.recall({ query: "What nuts can she not eat?" }), { timeout: 30_000 })
      .toEqual(["She is allergic to peanuts: vector"]);
    expect(listModelProcesses(process.pid)).toHaveLength(1);
  });

  test("a question does not wait behind a bulk of writes", async () => {
    const { service, profile } = await startLocal();
    await profile.ingest({ summary: "She is allergic to peanuts" });
    const bulk = profile.ingest(
      ...Array.from({ length: 60 }, (_, at) => ({
        type: "event",
        summary: `Event ${at}`,
        content: others.join(". ").repeat(4),
      })),
    );
    await expect.poll(() => readMetric(service, "embedder_waiting_texts")).toBeGreaterThan(20);
    expect(await profile.recall({ query: "What nuts can she not eat?" })).toEqual([
      "She is allergic to peanuts: vector",
    ]);
    expect(await readMetric(service, "embedder_waiting_texts"), "the bulk was still under way").toBeGreaterThan(5);
    await bulk;
  });

  test("its memory is bounded, whatever it is given", async () => {
    const { service, profile } = await startLocal();
    for (const letters of [7_000, 30, 1_000, 300])
      await profile.ingest(
        ...Array.from({ length: 8 }, (_, at) => ({
          type: "event",
          summary: `Event ${letters} ${at}`,
          content: "日本 naïve words ".repeat(letters / 15),
        })),
      );
    expect(await readMetric(service, "embedder_resident_memory_bytes")).toBeLessThan(modelResidentBytesMax / 1.5);
    expect(await readMetric(service, "embedder_starts_total")).toBe(1);
  });

  test("another process goes on with its vectors, as they are of the same model; none outlives its node", async () => {
    const directory = temporaryDirectory();
    const memories = "/v1/memory/acme/alice/memories";
    const first = await startNodeProcess(directory, variables);
    onTestFinished(() => first.end("SIGKILL"));
    const summaries = ["She is allergic to peanuts", ...others];
    await first.call("POST", memories, {
      memories: summaries.map((summary) => ({ type: "fact", summary, content: null })),
    });
    const [pid] = listModelProcesses(first.child.pid!);
    expect(pid).toBeDefined();
    await first.end("SIGKILL");
    await expect.poll(() => listModelProcesses(pid!), { timeout: 20_000 }).toEqual([]);

    const second = await startNodeProcess(directory, variables);
    onTestFinished(() => second.end("SIGKILL"));
    const ingest = await second.call("POST", memories, {
      memories: [{ type: "fact", summary: "Ada keeps bees", content: null }],
    });
    expect(ingest.json.results).toEqual([expect.not.objectContaining({ embedding: "skipped_model" })]);
    const recall = await second.call("POST", "/v1/memory/acme/alice/recall", { query: "What nuts can she not eat?" });
    expect(recall.json.memories).toMatchObject([{ summary: "She is allergic to peanuts", channels: ["vector"] }]);
    expect(await readMetric(second, "embedder_texts_total"), "no vector was made twice").toBe(2);
    await second.end("SIGTERM");
  });
});

test("without the package the node does not start, and says what brings it", async () => {
  if (localModelMissing === undefined) return;
  await expect(startService(variables)).rejects.toThrow(/SERVICE_EMBED_PROVIDER=local needs .*npm run embed-local/);
});
