/** Erasures over the wires: what may be erased, and what a coupon looks like. */
import { create, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type ErasedRecordsSchema,
  ErasureCouponSchema,
  type MemoryService,
} from "../../../gen/palimpsest/v1/memory_pb.ts";
import { ServiceError } from "../../base/faults/errors.ts";
import type { EffectivePolicy } from "../../control/databases/policies.ts";
import { isRecordId } from "../../format/audit/audit-event.ts";
import type { ErasureCoupon } from "../../format/erasure/erasure-coupon.ts";
import { erasedTxids, type ErasedKinds, type ErasureTarget } from "../../format/erasure/erasure-receipt.ts";
import { checkBranchName, profileDatabaseName } from "../../format/core/names.ts";
import { isErasureId } from "../../format/core/ids.ts";
import { engineOptions, seen, unborn, type Context, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { parseTarget, targetMessage } from "../erasure/erasure-target.ts";
import { readProfilePolicy } from "./governance.ts";
import { findProfileTarget, requireProfileTarget, type ProfileAddress } from "./targets.ts";
import type { Requested } from "../erasure/erasures.ts";
import type { NodeParts } from "./node-parts.ts";

type ErasureHandlers = Pick<ServiceHandlers<typeof MemoryService>, "createErasure" | "listErasures" | "getErasure">;

/** The nodes that a receipt tells of, by their identities. */
function listNodes({ receipt }: ErasureCoupon): readonly string[] {
  if (!receipt) return [];
  const { local, unattested = [] } = receipt.payload.evidence;
  return [...local.map(({ node }) => node), ...unattested];
}

/** The coupons for the wire, with the names of the nodes. */
async function couponMessages(
  { names }: NodeParts,
  coupons: readonly ErasureCoupon[],
): Promise<MessageInitShape<typeof ErasureCouponSchema>[]> {
  const known = await names.of(coupons.flatMap(listNodes));
  return coupons.map((coupon) => couponMessage(coupon, known));
}

/** The names of these nodes; undefined when none is known. */
function pickNames(nodes: readonly string[], names: Readonly<Record<string, string>>): JsonObject | undefined {
  const known = nodes.flatMap((id) => (names[id] === undefined ? [] : [[id, names[id]] as const]));
  return known.length === 0 ? undefined : Object.fromEntries(known);
}

/** How many of each kind, as the message has them. */
function erasedMessage({
  file_versions: fileVersions,
  ...kinds
}: ErasedKinds): MessageInitShape<typeof ErasedRecordsSchema> {
  return present({ ...kinds, fileVersions });
}

/** What the coupon says, for the wire. */
function couponMessage(
  coupon: ErasureCoupon,
  names: Readonly<Record<string, string>>,
): MessageInitShape<typeof ErasureCouponSchema> {
  const { target, blockedBy, completedAtMs, receipt, waitingFor } = coupon;
  return create(ErasureCouponSchema, {
    id: coupon.id,
    status: coupon.status,
    target: targetMessage(target),
    memoryIds: [...coupon.memoryIds],
    requestedAt: BigInt(coupon.requestedAtMs),
    graceUntil: BigInt(coupon.graceUntilMs),
    erasedTxid: Object.fromEntries(
      Object.entries(erasedTxids(coupon.points)).map(([branch, txid]) => [branch, BigInt(txid)]),
    ),
    ...present({
      nodes: pickNames(listNodes(coupon), names),
      blockedBy: blockedBy && { checkpoints: [...blockedBy.checkpoints], branches: [...blockedBy.branches] },
      completedAt: completedAtMs === undefined ? undefined : BigInt(completedAtMs),
      receipt: receipt && { ...receipt, payload: receipt.payload as unknown as JsonObject },
      waitingFor,
      records: coupon.records?.length,
      erased: coupon.kinds && erasedMessage(coupon.kinds),
    }),
  });
}

/** Begins an erasure of the profile's branch. */
async function request(
  node: NodeParts,
  context: Context,
  address: ProfileAddress,
  erase: ErasureTarget,
  policy: EffectivePolicy,
): Promise<Requested> {
  const target = await requireProfileTarget(node, context, address);
  if (erase.kind === "memory" && !isRecordId(erase.memoryId)) {
    // What has not the form of an id names no memory, and may be anything: no coupon is to hold it.
    seen(context, await node.engine.read(target, "memory.held", { memoryIds: [] }, engineOptions(context)));
    throw new ServiceError("not_found", "no memory has this id");
  }
  const database = profileDatabaseName(address.ns, address.profile);
  const requested = await node.erasures.request({
    database,
    target,
    erase,
    graceSecs: policy.erasureGraceSecs,
    options: engineOptions(context),
  });
  context.erasureId = requested.value.id;
  seen(context, requested);
  return requested;
}

/** Forgets the memory by a tracked erasure, as the policy wants it. */
export async function eraseTracked(
  node: NodeParts,
  context: Context,
  address: ProfileAddress & { readonly id: string },
  policy: EffectivePolicy,
): Promise<{ txid: bigint; erasureId: string }> {
  const { value, txid } = await request(node, context, address, { kind: "memory", memoryId: address.id }, policy);
  return { txid: BigInt(txid), erasureId: value.id };
}

/**
 * The uuid of the database whose coupons the caller may see: the one that has the name, or the deleted one that had it
 * last.
 */
async function findUuid(node: NodeParts, context: Context, address: ProfileAddress): Promise<string | undefined> {
  const last = await node.databases.lastHolder(profileDatabaseName(address.ns, address.profile));
  const { identity } = context;
  const isForeign = identity.kind === "token" && identity.database !== undefined && identity.database.uuid !== last;
  return isForeign ? undefined : last;
}

/** The coupons' database: asked for its transaction id while it exists. */
async function findPlace(
  node: NodeParts,
  context: Context,
  address: ProfileAddress,
): Promise<{ readonly uuid: string | undefined; readonly branch: string | undefined }> {
  const branch = address.branch === undefined ? undefined : checkBranchName(address.branch);
  const target = await findProfileTarget(node, context, address);
  if (!target) {
    seen(context, unborn);
    return { uuid: await findUuid(node, context, address), branch };
  }
  seen(context, await node.engine.read(target, "memory.held", { memoryIds: [] }, engineOptions(context)));
  return { uuid: target.uuid, branch };
}

export function erasureHandlers(node: NodeParts): ErasureHandlers {
  return {
    async createErasure(message, context) {
      const erase = parseTarget(message);
      const { value, txid } = await request(node, context, message, erase, await readProfilePolicy(node, message));
      return { ...(await couponMessages(node, [value]))[0], erasureId: value.id, txid: BigInt(txid) };
    },

    async listErasures(message, context) {
      const { uuid, branch } = await findPlace(node, context, message);
      return { erasures: uuid === undefined ? [] : await couponMessages(node, await node.erasures.list(uuid, branch)) };
    },

    async getErasure(message, context) {
      const { uuid, branch } = await findPlace(node, context, message);
      if (uuid === undefined)
        throw new ServiceError("database_not_found", `profile ${message.ns}/${message.profile} does not exist`);
      // It becomes part of a key in object storage, which is no place for free text.
      if (!isErasureId(message.id)) throw new ServiceError("not_found", "no erasure has this id");
      return (await couponMessages(node, [await node.erasures.get(uuid, message.id, branch)]))[0]!;
    },
  };
}
