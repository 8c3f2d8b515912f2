/**
 * Nothing that the service does of its own accord runs what a tenant's schema says: neither its cost nor its result is
 * the service's.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { ErasingProfile } from "../support/erasing-profile.ts";
import { hostileSchema, type HostileStatement } from "../support/hostile-schema.ts";
import { readMetrics, sumSamples } from "../support/metrics-text.ts";
import { seeded } from "../support/random.ts";
import { palimpsest } from "../support/command-runs.ts";
import { diagnosed, fleetIn, loseObject, troubles } from "../support/rescue.ts";
import { ok, startService, type Service } from "../support/service.ts";
import { temporaryDirectory } from "../support/temporary.ts";

const minuteMs = 60_000;
/** Less than one of the expressions takes, and far more than anything else does on a busy machine. */
const stalledMs = 20_000;
const valueBytes = 200_000;

interface Tenant {
  readonly service: Service;
  readonly directory: string;
  readonly profile: ErasingProfile;
  make(...statements: readonly HostileStatement[]): Promise<void>;
  /** Writes so many large values over each other, none of which may take long. */
  churn(count: number): Promise<void>;
  counted(metric: string): Promise<number>;
}

async function tenant(seed = 1): Promise<Tenant> {
  const directory = temporaryDirectory();
  const service = await startService({ SERVICE_GC_GRACE_SECS: "1" }, directory);
  onTestFinished(() => service.close());
  const profile = new ErasingProfile(service.wire("rest"), "acme");
  await profile.policy({ erasure: { grace_secs: 0 } });
  const random = seeded(seed);
  return {
    service,
    directory,
    profile,
    async make(...statements) {
      await ok(profile.database.call("DataService.ExecuteSql", { stmts: statements }));
    },
    async churn(count) {
      for (let n = 0; n < count; n++) {
        const value = Buffer.from(Array.from({ length: valueBytes }, () => Math.floor(random() * 256)));
        const startedMs = performance.now();
        await ok(profile.database.call("DataService.PutValue", { ns: "n", key: `k${n % 3}`, value }));
        expect(performance.now() - startedMs).toBeLessThan(stalledMs);
      }
      await ok(profile.database.call("DataService.Sync"));
    },
    async counted(metric) {
      return sumSamples(
        readMetrics((await service.call("GET", "/metrics")).text),
        `palimpsest_${metric}`,
        {},
        `palimpsest_${metric}`,
      );
    },
  };
}

/** Waits until a base image was made. */
async function untilRebased({ counted, churn }: Tenant): Promise<void> {
  for (const before = await counted("rebases_total"); (await counted("rebases_total")) === before;) await churn(8);
}

describe("a tenant's schema", () => {
  test(
    "does not stall its writers at a base image by what a generated column costs",
    { timeout: 5 * minuteMs },
    async () => {
      const one = await tenant();
      await one.profile.add({ summary: "anything" });
      const long = "x".repeat(300_000);
      await one.make(
        { q: "CREATE TABLE g (a, b)" },
        { q: "INSERT INTO g VALUES (?, ?)", params: [long, `${long.replaceAll("x", "y")}x`] },
        { q: "ALTER TABLE g ADD COLUMN c TEXT AS (trim(a, b))" },
      );
      await untilRebased(one);
    },
  );

  test(
    "does not keep an erasure from its end by a constraint that only its writer's connection meets",
    { timeout: 3 * minuteMs },
    async () => {
      const { profile, make } = await tenant();
      const [id] = await profile.add({ summary: "the zyxwvutsecret" });
      await make(
        { q: "CREATE TABLE bomb (a CHECK (total_changes() > 0 OR a = 0))" },
        { q: "INSERT INTO bomb VALUES (0)" },
        { q: "INSERT INTO bomb VALUES (1)" },
      );
      const { erasure_id } = await profile.erased({ memory_id: id });
      expect((await profile.until(erasure_id, "completed")).receipt.payload.evidence.traces.hits).toBe(0);
    },
  );

  test.each([1, 2])(
    "of every hostile kind is carried along by all that copies or mends a database (seed %i)",
    { timeout: 15 * minuteMs },
    async (seed) => {
      // Base images, forks, rewinds, erasures, restarts, backups, restores, doctor and repair.
      const one = await tenant(seed);
      const { service, directory, profile, make } = one;
      const [secret, kept] = await profile.add({ summary: "the zyxwvutsecret" }, { summary: "what stays" });
      for (const { what, statements } of hostileSchema(seeded(seed)))
        await make(...statements).catch((error: unknown) => expect.fail(`${what}: ${String(error)}`));
      const schema = async (branch = "main"): Promise<unknown> =>
        (
          await ok(
            profile.database
              .at(branch)
              .sql("SELECT type, name, sql FROM sqlite_schema WHERE substr(name, 1, 9) <> '__service' ORDER BY name"),
          )
        ).body.results;
      const made = await schema();
      await untilRebased(one);
      await ok(profile.database.fork("side"));
      await ok(profile.database.checkpoint("before"));
      await one.churn(2);
      await ok(profile.database.rewind("before"));
      await ok(profile.database.at("side").sql("CREATE TABLE side (n)"));
      await ok(profile.database.call("BranchService.DeleteCheckpoint", { branch: "main", name: "before" }));
      const coupons = [
        await profile.erased({ memory_id: secret }),
        await profile.at("side").erased({ memory_id: secret }),
      ];
      for (const { erasure_id } of coupons) {
        const { receipt } = await profile.until(erasure_id, "completed");
        const [file, jwks] = [join(directory, "receipt.json"), join(directory, "jwks.json")];
        writeFileSync(file, JSON.stringify(receipt));
        writeFileSync(jwks, (await service.call("GET", "/.well-known/jwks.json")).text);
        expect(await palimpsest(["verify-receipt", file, "--jwks", jwks])).toMatchObject({ code: 0 });
        for (const path of [file, jwks]) rmSync(path);
      }
      expect(await schema()).toEqual(made);
      // A node that lost its disk restores; one that did not opens what it has.
      await service.close();
      const fleet = fleetIn(directory);
      const name = profile.database.name;
      expect(troubles(await diagnosed("--data-dir", directory, "--deep"))).toEqual([]);
      const backup = fleetIn(temporaryDirectory());
      expect(
        await palimpsest(["backup", "--object-store", fleet.url, "--to", backup.url, "--verify", "restore"]),
      ).toMatchObject({ code: 0 });
      const out = join(temporaryDirectory(), "out.db");
      expect(
        await palimpsest(["restore", "--object-store", backup.url, "--database", name, "--out", out]),
      ).toMatchObject({ code: 0 });
      expect(readFileSync(out).includes("zyxwvutsecret")).toBe(false);
      expect(await palimpsest(["scan", directory, "--for", "zyxwvutsecret"])).toMatchObject({ code: 0 });
      const restored = fleetIn(temporaryDirectory());
      expect(
        await palimpsest([
          "restore",
          "--all",
          "--object-store",
          backup.url,
          "--to",
          restored.url,
          "--verify",
          "restore",
        ]),
      ).toMatchObject({ code: 0 });
      loseObject(restored.objects, `db/${restored.readUuid(name)}/catalog`);
      const plan = await palimpsest(["repair", "--object-store", restored.url, "--database", name]);
      const digest = /--apply ([0-9a-f]{16}) carries this out/.exec(plan.out)?.[1];
      expect(
        await palimpsest([
          "repair",
          "--object-store",
          restored.url,
          "--database",
          name,
          "--apply",
          digest!,
          "--nodes-stopped",
        ]),
      ).toMatchObject({ code: 0 });
      for (const place of [fleet, restored]) {
        const again = await place.start();
        const back = new ErasingProfile(again.wire("rest"), "acme", profile.profile);
        const codes = await Promise.all(
          [secret, kept].map(async (id) => (await back.call("MemoryService.GetMemory", { id })).code),
        );
        expect(codes).toEqual(["not_found", "ok"]);
        await ok(
          back.database.call(
            "DataService.PutValue",
            { ns: "n", key: "new", value: Buffer.from("new") },
            { "Service-Durability": "durable" },
          ),
        );
        await again.close();
      }
    },
  );
});
