/**
 * Where a node's objects are, and how to reach them. A location is plain data, so that every thread can open the store
 * for itself.
 */
import { resolve } from "node:path";
import type { World } from "../base/world.ts";
import { FileStore } from "./file/file-store.ts";
import { MemoryStore } from "./memory-store.ts";
import type { ObjectStore } from "./port/object-store.ts";
import { ReadOnlyStore } from "./read-only-store.ts";
import type { S3Location } from "./s3/s3-store.ts";

/** Where the objects are. */
export type StoreLocation =
  | { readonly kind: "file"; readonly directory: string }
  | S3Location
  /** A store of its own for each opening. */
  | { readonly kind: "memory" };

/** Opens the store; throws StoreError("misconfigured") when the location can never work. */
export async function openStore(location: StoreLocation, world: World): Promise<ObjectStore> {
  switch (location.kind) {
    case "memory":
      return new MemoryStore(world);
    case "file":
      return FileStore.open(resolve(location.directory), world);
    case "s3": {
      // Loaded where it is used: the client is large, and every thread of a node without S3 would hold it.
      const { S3Store } = await import("./s3/s3-store.ts");
      return S3Store.open(location, world);
    }
  }
}

/** Opens the store for reading only: nothing is made, not even a directory, and every attempt to write is a bug. */
export async function openStoreToRead(location: StoreLocation, world: World): Promise<ObjectStore> {
  return new ReadOnlyStore(
    location.kind === "file" ? FileStore.at(resolve(location.directory), world) : await openStore(location, world),
  );
}
