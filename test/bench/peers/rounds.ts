/**
 * Paired rounds: in each round every peer does the same for the same time, in an order that turns from round to round,
 * so that what else the machine does meets all of them. What counts is the ratio within a round.
 */
import { median, quantile } from "../raw-client.ts";
import type { Peer, PeerClient, PeerServer } from "./peer.ts";
import { busyMs, cpuMsOf } from "../process-tree.ts";

/** A peer whose server runs. */
export interface Running {
  readonly peer: Peer;
  readonly server: PeerServer;
  readonly directory: string;
}

export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

/** What one peer did in the rounds. */
export interface Figure {
  readonly peer: string;
  readonly perSecond: Spread;
  /** Our rate over its, round by round; none of ourselves. */
  readonly ratio: Spread | undefined;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Processor time of the server for each call. */
  readonly cpuUs: number;
  readonly calls: number;
  readonly errors: readonly string[];
}

/** What one peer did in one round: what counts is not always the call. */
export interface Round {
  readonly units: number;
  readonly seconds: number;
  readonly latenciesMs: readonly number[];
  readonly cpuMs: number;
  readonly errors: readonly string[];
}

/** One call of a client; the step counts on from round to round, so that nothing is sent twice. */
export type Act = (client: PeerClient, index: number, step: number, peer: Peer) => Promise<void>;

export function spreadOf(values: readonly number[]): Spread {
  return { median: median(values), least: Math.min(...values), most: Math.max(...values) };
}

/** Errors kept of a round; a client that meets so many has no more to tell. */
const errorsMax = 20;

/** Closed loops of the clients for so long; their errors are counted, not thrown. */
async function runLoops(
  { peer, server }: Running,
  clients: readonly PeerClient[],
  durationMs: number,
  firstStep: number,
  act: Act,
): Promise<Round & { readonly steps: number }> {
  const latenciesMs: number[] = [];
  const errors: string[] = [];
  let steps = 0;
  const cpuBefore = cpuMsOf(server.pids);
  const startedAt = performance.now();
  await Promise.all(
    clients.map(async (client, index) => {
      let step = 0;
      for (; step === 0 || (performance.now() - startedAt < durationMs && errors.length < errorsMax); step++) {
        const sentAt = performance.now();
        try {
          await act(client, index, firstStep + step, peer);
          latenciesMs.push(performance.now() - sentAt);
        } catch (error) {
          errors.push(`${peer.name}: ${error instanceof Error ? error.message : String(error)}`);
        }
      }
      steps = Math.max(steps, step);
    }),
  );
  const seconds = (performance.now() - startedAt) / 1_000;
  const cpuMs = cpuMsOf(server.pids) - cpuBefore;
  return { units: latenciesMs.length, seconds, latenciesMs, cpuMs, errors, steps };
}

/** The first of the peers is ours: the ratios are of its rate. */
export async function pairedRounds(
  running: readonly Running[],
  rounds: number,
  run: (one: Running, round: number) => Promise<Round>,
): Promise<readonly Figure[]> {
  const done = running.map((): Round[] => []);
  for (let round = 0; round < rounds; round++)
    for (let turn = 0; turn < running.length; turn++) {
      const at = (round + turn) % running.length;
      done[at]!.push(await run(running[at]!, round));
    }
  const rates = done.map((own) => own.map(({ units, seconds }) => units / seconds));
  return running.map(({ peer }, at) => {
    const own = done[at]!;
    const latencies = own.flatMap(({ latenciesMs }) => latenciesMs).toSorted((a, b) => a - b);
    const units = own.reduce((sum, one) => sum + one.units, 0);
    return {
      peer: peer.name,
      perSecond: spreadOf(rates[at]!),
      ratio: at === 0 ? undefined : spreadOf(rates[0]!.map((rate, round) => rate / rates[at]![round]!)),
      p50Ms: quantile(latencies, 0.5),
      p99Ms: quantile(latencies, 0.99),
      cpuUs: (own.reduce((sum, { cpuMs }) => sum + cpuMs, 0) * 1_000) / units,
      calls: units,
      errors: own.flatMap(({ errors }) => errors),
    };
  });
}

/** Paired rounds of closed loops after a warm-up, over connections that stay open. */
export async function loopRounds(
  running: readonly Running[],
  clients: number,
  { rounds, roundMs, warmMs }: { readonly rounds: number; readonly roundMs: number; readonly warmMs: number },
  act: Act,
): Promise<readonly Figure[]> {
  const connections = new Map<Running, readonly PeerClient[]>();
  const steps = new Map<Running, number>();
  const loop = async (one: Running, durationMs: number): Promise<Round> => {
    const first = steps.get(one) ?? 0;
    const round = await runLoops(one, connections.get(one)!, durationMs, first, act);
    steps.set(one, first + round.steps);
    return round;
  };
  try {
    for (const one of running) {
      connections.set(one, await Promise.all(Array.from({ length: clients }, () => one.server.open())));
      await loop(one, warmMs);
    }
    return await pairedRounds(running, rounds, (one) => loop(one, roundMs));
  } finally {
    for (const opened of connections.values()) await Promise.all(opened.map(async (client) => client.close()));
  }
}

/** How much of the cores others took between two looks, beside the servers and the bench itself. */
export function watchOthers(running: readonly Running[]): () => number {
  const look = (): readonly number[] => {
    const own = process.cpuUsage();
    const servers = running.map(({ server }) => cpuMsOf(server.pids));
    return [performance.now(), busyMs(), (own.user + own.system) / 1_000, ...servers];
  };
  const before = look();
  return () => {
    const [wall, busy, ...ours] = look().map((value, at) => value - before[at]!);
    return Math.max(0, (busy! - ours.reduce((sum, one) => sum + one, 0)) / wall!);
  };
}
