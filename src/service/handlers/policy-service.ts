/** Policies over the wires: of a namespace with the control plane, of a profile with its memory. */
import type { JsonObject, Message, MessageInitShape } from "@bufbuild/protobuf";
import type { ControlService, NamespacePolicySchema } from "../../../gen/palimpsest/v1/control_pb.ts";
import type { MemoryService, ProfilePolicySchema } from "../../../gen/palimpsest/v1/memory_pb.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import type { ProfilePolicy } from "../../control/databases/policies.ts";
import { checkNamePart } from "../../format/core/names.ts";
import {
  parsePolicy,
  unknownFields,
  type PolicyDocument,
  type PolicyLevel,
  type StoredPolicy,
} from "../../format/records/policy.ts";
import type { ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import { jsonText } from "../call/exact-json.ts";
import type { NodeParts } from "./node-parts.ts";

/** The policy of a request; undefined clears. */
function parseDocument(request: Message, level: PolicyLevel): PolicyDocument | undefined {
  const text = jsonText(request, "policy");
  if (text === undefined) throw invalid("policy is required: an object, or null to clear it");
  return parsePolicy(text, level);
}

interface Warnings {
  readonly warnings?: { readonly values: string[] };
}

/** What the caller that sets the policy should know of it. */
function listWarnings(document: PolicyDocument | undefined): Warnings {
  const warnings = document ? unknownFields(document) : [];
  return warnings.length === 0 ? {} : { warnings: { values: [...warnings] } };
}

/** `warnings` is in the answer to a change only. */
function namespaceMessage(
  namespace: string,
  { revision, updatedAtMs, document }: StoredPolicy,
  warnings: Warnings = {},
): MessageInitShape<typeof NamespacePolicySchema> {
  return {
    ...warnings,
    namespace,
    revision: BigInt(revision),
    updatedAt: BigInt(updatedAtMs),
    ...present({ policy: document as JsonObject | undefined }),
  };
}

function profileMessage(
  namespace: string,
  profile: string,
  { stored, effective }: ProfilePolicy,
  warnings: Warnings = {},
): MessageInitShape<typeof ProfilePolicySchema> {
  return {
    ...warnings,
    namespace,
    profile,
    effective: effective.values as JsonObject,
    revision: BigInt(stored?.revision ?? 0),
    ...present({ override: stored?.document as JsonObject | undefined }),
  };
}

export function namespacePolicyHandlers(
  node: NodeParts,
): Pick<ServiceHandlers<typeof ControlService>, "getNamespacePolicy" | "putNamespacePolicy"> {
  return {
    async getNamespacePolicy(request) {
      const namespace = checkNamePart("namespace", request.ns);
      const stored = await node.policies.getNamespace(namespace);
      if (!stored) throw new ServiceError("not_found", `namespace ${namespace} has no policy`);
      return namespaceMessage(namespace, stored);
    },

    async putNamespacePolicy(request) {
      const namespace = checkNamePart("namespace", request.ns);
      const document = parseDocument(request, "namespace");
      return namespaceMessage(namespace, await node.policies.putNamespace(namespace, document), listWarnings(document));
    },
  };
}

export function profilePolicyHandlers(
  node: NodeParts,
): Pick<ServiceHandlers<typeof MemoryService>, "getProfilePolicy" | "putProfilePolicy"> {
  return {
    async getProfilePolicy(request) {
      const namespace = checkNamePart("namespace", request.ns);
      const profile = checkNamePart("profile", request.profile);
      return profileMessage(namespace, profile, await node.policies.getProfile(namespace, profile));
    },

    async putProfilePolicy(request) {
      const namespace = checkNamePart("namespace", request.ns);
      const profile = checkNamePart("profile", request.profile);
      const document = parseDocument(request, "profile");
      return profileMessage(
        namespace,
        profile,
        await node.policies.putProfile(namespace, profile, document),
        listWarnings(document),
      );
    },
  };
}
