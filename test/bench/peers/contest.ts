/** Runs a part of the bench: the servers of its peers, each on a directory of its own, from start to end. */
import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Part, Peer } from "./peer.ts";
import { watchOthers, type Running } from "./rounds.ts";
import { SectionTables, type Section } from "./section.ts";
import type { Size } from "./sizes.ts";

export interface Contest {
  readonly peers: readonly Peer[];
  readonly size: Size;
  /** Empty, and removed when the bench ends. */
  readonly directory: string;
}

export interface PartOf {
  readonly part: Part;
  readonly title: string;
  readonly lead: string;
  /** Fills the tables; the servers are its own to start. */
  run(contest: Contest, tables: SectionTables): Promise<number>;
}

export async function runPart({ part, title, lead, run }: PartOf, contest: Contest): Promise<Section> {
  const tables = new SectionTables();
  const peers = contest.peers.filter((peer) => peer.parts.includes(part));
  const directory = join(contest.directory, part);
  const others = await run({ ...contest, peers, directory }, tables);
  return { part, title, lead, others, ...tables };
}

/** Starts the peers, prepares the spaces in each, and ends them when all is done; tells what others took. */
export async function withServers(
  peers: readonly Peer[],
  directory: string,
  spaces: readonly string[],
  act: (running: readonly Running[]) => Promise<void>,
): Promise<number> {
  const running: Running[] = [];
  // Servers of other users find theirs in it.
  mkdirSync(directory, { recursive: true });
  chmodSync(directory, 0o755);
  try {
    for (const [at, peer] of peers.entries()) {
      const own = join(directory, `peer-${at}`);
      const server = await peer.start(own);
      running.push({ peer, server, directory: own });
      await server.prepare(spaces);
    }
    const look = watchOthers(running);
    await act(running);
    return look();
  } finally {
    for (const { server } of running) await server.stop();
  }
}
