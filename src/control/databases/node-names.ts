/**
 * Which identities go by which names: `SERVICE_NODE_ID`, for the people who read an audit stream, a receipt or metrics.
 *
 * Why: a node is known by an identity that is made with its data directory, as manifests, copies and audit chains must
 * not take a node with an empty disk for the one that had the old one, nor two nodes with one name for one. People know
 * it by its name. So each node records the two together when it starts.
 *
 * Always true: a name decides nothing; several identities may have one, and one that is not known has none. Must not
 * know: which nodes live.
 */
import { encodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { World } from "../../base/world.ts";
import { nodeNameKey, nodesPrefix, parseNodeNameKey } from "../../format/keys/node-keys.ts";
import type { ObjectStore } from "../../store/port/object-store.ts";
import { surePut } from "../../store/port/sure-put.ts";

/** Names are for people, and change when a node starts. */
const nodeNamesCacheMs = 10_000;
/**
 * Data directories that a store remembers the names of, a key each; of more, the names of the first ones are known.
 */
const nodeNamesListedMax = 10_000;

export class NodeNames {
  readonly #store: ObjectStore;
  readonly #world: World;
  #read: { readonly names: ReadonlyMap<string, string>; readonly atMs: number } | undefined;
  #reading: Promise<ReadonlyMap<string, string>> | undefined;

  constructor(store: ObjectStore, world: World) {
    this.#store = store;
    this.#world = world;
  }

  /** The node of this identity goes by this name from now on. Throws StoreError. */
  async announce(node: string, name: string): Promise<void> {
    const key = nodeNameKey(node, name);
    await surePut(this.#store, key, encodeUtf8(name), { kind: "absent" });
    const { objects } = await this.#store.list(`${nodesPrefix}${node}/`, { limit: nodeNamesListedMax });
    await Promise.all(objects.filter((object) => object.key !== key).map((object) => this.#store.delete(object.key)));
    this.#read = undefined;
  }

  /** Names by identity, as far as they are known: what cannot be read leaves a node without one. */
  async names(): Promise<ReadonlyMap<string, string>> {
    if (this.#read && this.#world.monotonicMs() - this.#read.atMs < nodeNamesCacheMs) return this.#read.names;
    this.#reading ??= this.#list()
      .then((names) => {
        this.#read = { names, atMs: this.#world.monotonicMs() };
        return names;
      })
      .finally(() => (this.#reading = undefined));
    try {
      return await this.#reading;
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      return this.#read?.names ?? new Map();
    }
  }

  /** The names of some nodes, by their identities; those that have one. */
  async of(nodes: Iterable<string>): Promise<Record<string, string>> {
    const wanted = new Set(nodes);
    if (wanted.size === 0) return {};
    const names = await this.names();
    return Object.fromEntries([...wanted].flatMap((node) => (names.has(node) ? [[node, names.get(node)!]] : [])));
  }

  /** Every identity that goes by the name. Throws StoreError. */
  async named(name: string): Promise<readonly string[]> {
    const names = await this.#list();
    return [...names].filter(([, known]) => known === name).map(([node]) => node);
  }

  async #list(): Promise<ReadonlyMap<string, string>> {
    const names = new Map<string, string>();
    for (let after: string | undefined; ;) {
      const page = await this.#store.list(nodesPrefix, { after, limit: limits.storeListMax });
      for (const { key } of page.objects) {
        const known = parseNodeNameKey(key);
        if (known) names.set(known.node, known.name);
      }
      if (page.next === undefined || names.size >= nodeNamesListedMax) return names;
      after = page.next;
    }
  }
}
