/** What is proposed for a branch whose manifest is unusable, and what it is made of. */
import type { Catalog } from "../../format/history/catalog.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import type { PoolIndex } from "./pool-index.ts";
import type { StatePlace } from "../segments/restored-state.ts";

/** A manifest that would mend its branch. */
export interface ProposedManifest {
  readonly manifest: Manifest;
  readonly bytes: Uint8Array;
  /** How it was found, in words. */
  readonly how: string;
  /** What is lost by it, in words. */
  readonly loses: readonly string[];
}

/** What is known when a branch is to be repaired. */
export interface ManifestRepairParts {
  readonly place: StatePlace;
  readonly pool: PoolIndex;
  readonly catalog: Catalog | undefined;
}

/** Written by a repair: no node's name, so that no node takes the branch for its own. */
export const repairer = "palimpsest-repair";
/** The length of a manifest's nonce. */
export const nonceBytes = 16;
