/**
 * The names of objects that one piece of work puts before its branch's manifest, or history, names them.
 *
 * Why together: a name has the epoch that it was begun in, and what an older epoch has put and nothing names is garbage
 * to the collector, as the writer of that epoch is fenced. Work that began before this very node claimed the branch
 * goes on in the new epoch: what it has put may be condemned by now, and is not published any more. Always true: a
 * change of the manifest made through here names no object of this work whose epoch is over.
 */
import { StoreError } from "../../base/faults/errors.ts";
import type { Manifest } from "../../format/history/manifest.ts";
import { parsePoolId } from "../../format/keys/object-keys.ts";
import type { ManifestWriter, ManifestChange } from "./manifest-writer.ts";

export class Uploads {
  readonly manifest: ManifestWriter;
  readonly #ids: string[] = [];

  constructor(manifest: ManifestWriter) {
    this.manifest = manifest;
  }

  /** A name for one more object; until `end` no collector takes it for garbage, for as long as its epoch lasts. */
  newId(): string {
    const id = this.manifest.beginUpload();
    this.#ids.push(id);
    return id;
  }

  /** Whether the branch was claimed since the first name was given: then all is put again, under new names. */
  get isOver(): boolean {
    return this.#isOver(this.manifest.now);
  }

  /** BranchHead.update, for a change that names what was put. Throws StoreError("unavailable") when that is over. */
  update(change: (manifest: Manifest) => ManifestChange | undefined): Promise<Manifest> {
    return this.manifest.update((manifest) => {
      if (this.#isOver(manifest))
        throw new StoreError("unavailable", "the branch was claimed while objects were put for it: they are put again");
      return change(manifest);
    });
  }

  /** Everything has been published or abandoned. */
  end(): void {
    for (const id of this.#ids) this.manifest.endUpload(id);
  }

  #isOver({ epoch }: Manifest): boolean {
    return this.#ids.some((id) => parsePoolId(id)!.epoch < epoch);
  }
}

/** Does a piece of work that puts objects, and ends their names with it. */
export async function withUploads<Result>(
  manifest: ManifestWriter,
  act: (uploads: Uploads) => Promise<Result>,
): Promise<Result> {
  const uploads = new Uploads(manifest);
  try {
    return await act(uploads);
  } finally {
    uploads.end();
  }
}
