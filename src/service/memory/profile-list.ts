/** The profiles of a namespace over the wires, with when they were last written where that is asked for. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  ListProfilesRequest,
  ListProfilesResponseSchema,
  ProfileSchema,
} from "../../../gen/palimpsest/v1/memory_pb.ts";
import { invalid } from "../../base/faults/errors.ts";
import { checkProfilePrefix, eachOf, isAscending } from "../../control/databases/profile-directory.ts";
import { checkNamePart } from "../../format/core/names.ts";
import { activityFields, present } from "../call/data-messages.ts";
import type { NodeParts } from "../handlers/node-parts.ts";

const pageDefault = 100;
const pageMax = 1_000;
/** A page with activity reads a manifest for each profile. */
const activityPageMax = 100;

/** All profiles of the namespace, or a page of them. */
export async function listProfiles(
  node: NodeParts,
  { ns, prefix, limit, cursor, order, include }: ListProfilesRequest,
): Promise<MessageInitShape<typeof ListProfilesResponseSchema>> {
  const namespace = checkNamePart("namespace", ns);
  if (include !== undefined && include !== "activity") throw invalid("include must be activity");
  if (limit !== undefined && limit < 1)
    throw invalid(`limit must be a whole number from 1; at most ${pageMax} profiles are on a page`);
  if (limit === undefined && cursor === undefined && include === undefined) {
    const isUp = isAscending(order);
    const wanted = checkProfilePrefix(prefix ?? "");
    const found = (await node.databases.listProfiles(namespace)).filter(({ profile }) => profile.startsWith(wanted));
    const profiles = found
      .map(({ profile, createdAtMs }) => ({ profile, createdAt: BigInt(createdAtMs) }))
      .toSorted((a, b) => (a.profile < b.profile ? -1 : 1));
    return { namespace, profiles: isUp ? profiles : profiles.reverse() };
  }
  const page = await node.profiles.page({
    namespace,
    limit: Math.min(limit ?? pageDefault, include === undefined ? pageMax : activityPageMax),
    ...present({ prefix, cursor, order }),
  });
  const profiles = await eachOf(
    page.profiles,
    async ({ profile, record }): Promise<MessageInitShape<typeof ProfileSchema>> => ({
      profile,
      createdAt: BigInt(record.createdAtMs),
      ...(include !== undefined && activityFields(await node.profiles.activity(record.uuid))),
    }),
  );
  return { namespace, profiles, ...present({ nextCursor: page.nextCursor }) };
}
