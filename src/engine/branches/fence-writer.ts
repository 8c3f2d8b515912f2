/**
 * Fences the writer of a branch, without its data: what a claim needs when opening the file takes longer than a busy
 * writer's next manifest.
 */
import { ManifestWriter, Fenced, type ManifestWriterOptions } from "../history/manifest-writer.ts";

/** Claims of a branch that are tried against a writer that goes on moving its manifest. */
const overtakingRacesMax = 64;

/**
 * Claims the branch at its present manifest, again and again until the claim lands: from then on no change of an older
 * writer does. Between looking and claiming there is one way to the store, as between two manifests of that writer, so
 * that each race has its chance. What the writer may have acknowledged beyond its manifest is noted as lost. A branch
 * without a manifest is left alone, and nothing more is tried once `isWanted` denies it. Throws Fenced when every race
 * was lost.
 */
export async function fenceWriter(
  options: ManifestWriterOptions,
  isWanted: () => boolean = () => true,
  leaseEpoch = 0,
): Promise<void> {
  for (let race = 1; isWanted(); race++) {
    const manifest = await ManifestWriter.read(options);
    if (!manifest.exists) return;
    try {
      await manifest.claim(manifest.now.txid, false, {}, leaseEpoch);
      return;
    } catch (error) {
      if (!(error instanceof Fenced) || race >= overtakingRacesMax) throw error;
    }
  }
}
