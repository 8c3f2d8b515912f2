/**
 * What leases are in the coordination store: the names of the keys, and their values.
 *
 * Always true: what is read back here is well-formed and within its bounds, or `corrupt`: others write there too. An
 * unknown member is passed over, so that nodes of two versions can live side by side.
 *
 *   nodes/<node>    lives with the node's lease    {"address", "reachesStore", "sharesJobs"}; older builds: no third
 *   announced       one for all, stays             the node that announced itself last
 *   writer/<uuid>   lives with its holder's lease  {"node", "address", "term"}
 *   terms/<digits>  4,096 of them, which stay      the last lease epoch given to any database whose uuid begins so
 *   term/<uuid>     of builds before: it stayed    the last lease epoch that was given to the one database
 */
import { decodeUtf8 } from "../../base/bytes.ts";
import { StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import { isCount, isObject, matching } from "../../format/core/json-shape.ts";
import type { Holder, LiveNode } from "../port/leases.ts";

const coordValueBytesMax = 1_024;

/** A key and its bytes, as they were read. */
export interface LeaseRecord {
  readonly key: string;
  readonly value: Uint8Array;
}

const isNodeId = matching(/^[\w.-]{1,128}$/);
const isAddress = matching(/^https?:\/\/[^\s/?#@]{1,256}$/);
/**
 * Digits of a uuid that choose the key by which lease epochs are counted: more would leave more keys, fewer would make
 * more nodes wait for each other.
 */
const leaseEpochDigits = 3;
const leaseEpochPattern = /^[1-9]\d{0,15}$/;

/** The keys of one cluster. */
export class LeaseKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** What the keys of all nodes begin with. */
  get nodes(): string {
    return `${this.#prefix}nodes/`;
  }

  node(id: string): string {
    return this.nodes + id;
  }

  /** Changes with every announcement of a node. */
  get announced(): string {
    return `${this.#prefix}announced`;
  }

  writer(uuid: string): string {
    return `${this.#prefix}writer/${uuid}`;
  }

  /** What counts the lease epochs of the database, and of those whose uuids begin alike. */
  leaseEpochs(uuid: string): string {
    return `${this.#prefix}terms/${uuid.slice(0, leaseEpochDigits)}`;
  }

  /** What counted them in earlier builds. */
  oldLeaseEpoch(uuid: string): string {
    return `${this.#prefix}term/${uuid}`;
  }

  /** The node whose key the record is. */
  decodeNode(record: LeaseRecord): LiveNode {
    const id = record.key.slice(this.nodes.length);
    const { address, reachesStore, sharesJobs = false } = parseObject(record);
    if (!isNodeId(id) || !isAddress(address) || typeof reachesStore !== "boolean" || typeof sharesJobs !== "boolean")
      throw corrupt(record);
    return { id, address: address as string, reachesStore, sharesJobs };
  }
}

/** The value of a node's key. */
export function nodeText({ address, reachesStore, sharesJobs }: LiveNode): string {
  return JSON.stringify({ address, reachesStore, sharesJobs });
}

/** The value of a writer's key. */
export function writerText({ nodeId, address, leaseEpoch }: Holder): string {
  return JSON.stringify({ node: nodeId, address, term: leaseEpoch });
}

/** Who holds the database whose writer's key the record is. */
export function decodeHolder(record: LeaseRecord): Holder {
  const { node, address, term: leaseEpoch } = parseObject(record);
  if (!isNodeId(node) || !isAddress(address) || !isLeaseEpoch(leaseEpoch)) throw corrupt(record);
  return { nodeId: node as string, address: address as string, leaseEpoch: leaseEpoch as number };
}

/** The lease epoch that the record holds. */
export function decodeLeaseEpoch(record: LeaseRecord): number {
  const text = decodeText(record);
  if (!leaseEpochPattern.test(text) || !isLeaseEpoch(Number(text))) throw corrupt(record);
  return Number(text);
}

/** Below the last number of all, so that there is a next one. */
function isLeaseEpoch(value: unknown): boolean {
  return isCount(value) && value !== 0 && value !== Number.MAX_SAFE_INTEGER;
}

function parseObject(record: LeaseRecord): Readonly<Record<string, unknown>> {
  const text = decodeText(record);
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // Not JSON: it is refused below, like JSON of another form.
  }
  throw corrupt(record);
}

function decodeText(record: LeaseRecord): string {
  const text = record.value.length <= coordValueBytesMax ? decodeUtf8(record.value) : undefined;
  if (text === undefined) throw corrupt(record);
  return text;
}

function corrupt({ key }: LeaseRecord): StoreError {
  return new StoreError(
    "corrupt",
    `coordination: ${JSON.stringify(key.slice(0, limits.coordMessageCharsMax))} holds what no node writes`,
  );
}
