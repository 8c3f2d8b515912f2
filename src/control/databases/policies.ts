/**
 * The policies of namespaces and profiles in object storage, and what is enforced by them on this node.
 *
 * Always true:
 * - object storage decides
 * - a change is a compare-and-set, so that none is lost
 * - what is remembered here is out of date by `cacheMs` at most, or for as long as object storage does not answer, and
 *   never behind a change that this node has made itself
 * - no call waits long for a policy: what is remembered stays in force in an outage, and what is not is taken for
 *   unreadable (control/databases/effective-policy)
 *
 * Must not know: who may change a policy, engines, wires.
 */
import { ServiceError, StoreError } from "../../base/faults/errors.ts";
import { limits } from "../../base/limits.ts";
import type { Log } from "../../base/log.ts";
import { LruMap } from "../../base/collections/lru-map.ts";
import type { World } from "../../base/world.ts";
import {
  decodePolicy,
  encodePolicy,
  looserFields,
  readPolicy,
  type PolicyDocument,
  type PolicyLevel,
  type PolicyValues,
  type StoredPolicy,
} from "../../format/records/policy.ts";
import {
  parseNamespacePolicyKey,
  namespacePolicyKey,
  policyPrefix,
  profilePolicyKey,
} from "../../format/keys/object-keys.ts";
import { isUnreadable } from "../../format/core/versions.ts";
import type { ObjectStore, PutCondition } from "../../store/port/object-store.ts";
import { surePut } from "../../store/port/sure-put.ts";
import { effectivePolicy, silentPolicy, type EffectivePolicy } from "./effective-policy.ts";

export type { EffectivePolicy } from "./effective-policy.ts";

/**
 * Policies of namespaces and profiles that a node remembers, their known fields only; the least recently used go
 * first.
 */
const policiesCachedMax = 100_000;

export interface PoliciesOptions {
  readonly store: ObjectStore;
  readonly world: World;
  readonly log: Log;
  /** Within this a change by another node is enforced here. */
  readonly cacheMs: number;
  readonly nodePitrSecs: number;
}

/** A profile's own policy, and what is enforced for it. */
export interface ProfilePolicy {
  /** Undefined when none was ever set. */
  readonly stored: StoredPolicy | undefined;
  readonly effective: EffectivePolicy;
}

/** Where a policy lies, and whose it is. */
interface Place {
  readonly key: string;
  readonly level: PolicyLevel;
}

/** When something was asked: what was learnt later is not forgotten for it. */
interface Tick {
  readonly turn: number;
  readonly atMs: number;
}

interface Cached {
  /** Undefined when the object cannot be used. */
  readonly values: PolicyValues | undefined;
  readonly asOf: Tick;
}

/** A caller waits this long for a known policy to be read again, and for an unknown one. */
const refreshPatienceMs = 250;
const firstPatienceMs = 2_000;
/** A lost race is settled by reading again; more rounds than this means the store does not keep its promise. */
const racesMax = 64;

const namespacePlace = (namespace: string): Place => ({ key: namespacePolicyKey(namespace), level: "namespace" });
const profilePlace = (namespace: string, profile: string): Place => ({
  key: profilePolicyKey(namespace, profile),
  level: "profile",
});

export class Policies {
  readonly #options: PoliciesOptions;
  /** By object key, in the order in which they were read. */
  readonly #cache = new LruMap<string, Cached>(policiesCachedMax);
  /** Policies that are being read again, each with what its callers get. */
  readonly #refreshes = new Map<string, Promise<PolicyValues | undefined>>();
  /** The merged values that are remembered: most calls find theirs here. */
  readonly #folded = new WeakMap<PolicyValues, WeakMap<PolicyValues, EffectivePolicy>>();
  #turns = 0;
  /** Whether the last policy that was to be read again could not be. */
  #unread = false;

  constructor(options: PoliciesOptions) {
    this.#options = options;
  }

  /** What is enforced: the strictest of node, namespace and profile. Never fails; see `known`. */
  async effective(namespace: string, profile?: string): Promise<EffectivePolicy> {
    const ofNamespace = this.#values(namespacePlace(namespace));
    const own = profile === undefined ? silentPolicy : this.#values(profilePlace(namespace, profile));
    // Most calls wait for neither.
    if (!(ofNamespace instanceof Promise) && !(own instanceof Promise)) return this.#fold(ofNamespace, own);
    return this.#fold(...(await Promise.all([ofNamespace, own])));
  }

  /** The policy of a namespace in object storage; undefined when none was ever set. */
  async getNamespace(namespace: string): Promise<StoredPolicy | undefined> {
    return (await this.#read(namespacePlace(namespace))).stored;
  }

  /** Replaces the policy of a namespace; undefined clears it. */
  async putNamespace(namespace: string, document: PolicyDocument | undefined): Promise<StoredPolicy> {
    return this.#put(namespacePlace(namespace), document);
  }

  /** A profile's own policy in object storage, and what is enforced. The profile need not exist. */
  async getProfile(namespace: string, profile: string): Promise<ProfilePolicy> {
    const [ofNamespace, own] = await Promise.all([
      this.#readable(namespacePlace(namespace)),
      this.#read(profilePlace(namespace, profile)),
    ]);
    return { stored: own.stored, effective: this.#fold(ofNamespace, own.values) };
  }

  /** Replaces a profile's own policy; undefined clears it. Throws conflict when it is looser than the namespace's. */
  async putProfile(namespace: string, profile: string, document: PolicyDocument | undefined): Promise<ProfilePolicy> {
    const stored = await this.#put(profilePlace(namespace, profile), document, async (values) => {
      const looser = looserFields(values, (await this.#read(namespacePlace(namespace))).values);
      if (looser.length > 0)
        throw new ServiceError(
          "conflict",
          `a profile's policy can only tighten its namespace's; these fields would loosen it: ${looser.join(", ")}`,
        );
    });
    return { stored, effective: await this.effective(namespace, profile) };
  }

  /**
   * Every namespace that has a policy, by name, with its known fields. Policies that cannot be read are left out and
   * logged.
   */
  async namespaces(): Promise<{ readonly namespace: string; readonly values: PolicyValues }[]> {
    const found: { readonly namespace: string; readonly values: PolicyValues }[] = [];
    for (let after: string | undefined; ;) {
      const page = await this.#options.store.list(policyPrefix, { after, limit: limits.storeListMax });
      for (const namespace of page.objects.flatMap(({ key }) => parseNamespacePolicyKey(key) ?? [])) {
        const values = await this.#readable(namespacePlace(namespace));
        if (values) found.push({ namespace, values });
      }
      if (page.next === undefined || found.length >= limits.databasesListMax) return found;
      after = page.next;
    }
  }

  #fold(namespace: PolicyValues | undefined, profile: PolicyValues | undefined): EffectivePolicy {
    const { nodePitrSecs } = this.#options;
    if (!namespace || !profile) return effectivePolicy(nodePitrSecs, namespace, profile);
    let ofNamespace = this.#folded.get(namespace);
    if (!ofNamespace) this.#folded.set(namespace, (ofNamespace = new WeakMap()));
    let folded = ofNamespace.get(profile);
    if (!folded) ofNamespace.set(profile, (folded = effectivePolicy(nodePitrSecs, namespace, profile)));
    return folded;
  }

  /** What the policy says, as far as this node knows; undefined when it cannot be read. */
  #values(place: Place): PolicyValues | undefined | Promise<PolicyValues | undefined> {
    const cached = this.#cache.peek(place.key);
    if (cached && this.#options.world.monotonicMs() - cached.asOf.atMs < this.#options.cacheMs) return cached.values;
    return this.#refreshes.get(place.key) ?? this.#refresh(place, cached);
  }

  /** Reads a policy again, once for all callers, who wait for it a moment only. */
  #refresh(place: Place, cached: Cached | undefined): Promise<PolicyValues | undefined> {
    const reading = this.#readable(place)
      .catch((error: unknown) => {
        if (!(error instanceof StoreError)) throw error;
        // Said once, not for every policy and call of an outage.
        if (!this.#unread)
          this.#options.log.warn("policies cannot be read: those that are known hold, and all others deny egress", {
            reason: error.kind,
          });
        this.#unread = true;
        return cached?.values;
      })
      .finally(() => this.#refreshes.delete(place.key));
    const outcome = this.#within(cached ? refreshPatienceMs : firstPatienceMs, reading, cached?.values);
    this.#refreshes.set(place.key, outcome);
    return outcome;
  }

  async #within<Value>(patienceMs: number, value: Promise<Value>, otherwise: Value): Promise<Value> {
    const { promise: timeUp, resolve } = Promise.withResolvers<Value>();
    const cancel = this.#options.world.after(patienceMs, () => resolve(otherwise));
    try {
      return await Promise.race([value, timeUp]);
    } finally {
      cancel();
    }
  }

  /** What the object says, or undefined when it is not a policy. Throws StoreError when the store does not answer. */
  async #readable(place: Place): Promise<PolicyValues | undefined> {
    try {
      return (await this.#read(place)).values;
    } catch (error) {
      if (isUnreadable(error)) return undefined;
      throw error;
    }
  }

  /** Reads the object and remembers what it says. Throws StoreError. */
  async #read(place: Place): Promise<{ readonly stored: StoredPolicy | undefined; readonly values: PolicyValues }> {
    const asOf = this.#tick();
    const object = await this.#options.store.get(place.key);
    this.#unread = false;
    try {
      const stored = object && decodePolicy(object.bytes, place.level);
      const values = stored?.values ?? silentPolicy;
      this.#remember(place, values, asOf);
      return { stored, values };
    } catch (error) {
      this.#remember(place, undefined, asOf);
      this.#options.log.error("a policy object cannot be used: egress is denied until it is replaced", error, {
        key: place.key,
      });
      throw error;
    }
  }

  /**
   * Changes the object from whatever it holds. `check` judges the new values against what holds now, before each try.
   */
  async #put(
    place: Place,
    document: PolicyDocument | undefined,
    check: (values: PolicyValues) => Promise<void> = async () => {},
  ): Promise<StoredPolicy> {
    const { store, world } = this.#options;
    const values = document ? readPolicy(document, place.level) : silentPolicy;
    for (let race = 0; race < racesMax; race++) {
      await check(values);
      const object = await store.get(place.key);
      const before = object && this.#replaceable(object.bytes, place.level);
      const next: StoredPolicy = {
        revision: (before?.revision ?? 0) + 1,
        updatedAtMs: Math.max(world.nowMs(), world.time.believable(before?.updatedAtMs ?? 0)),
        nonce: world.randomBytes(16),
        document,
      };
      const condition: PutCondition = object ? { kind: "version", version: object.version } : { kind: "absent" };
      if (await this.#confirmPut(place, encodePolicy(next), condition)) {
        this.#remember(place, values, this.#tick());
        return next;
      }
    }
    throw new StoreError("unavailable", "a policy changed too often to be replaced");
  }

  /**
   * What is to be replaced. An object that cannot be used is replaced as if it were none: that is how it is mended. One
   * of a newer build stays.
   */
  #replaceable(bytes: Uint8Array, level: PolicyLevel): StoredPolicy | undefined {
    try {
      return decodePolicy(bytes, level);
    } catch (error) {
      if (error instanceof StoreError && error.kind === "corrupt") return undefined;
      throw error;
    }
  }

  /** Whether the put has landed. */
  async #confirmPut(place: Place, bytes: Uint8Array, condition: PutCondition): Promise<boolean> {
    try {
      return (await surePut(this.#options.store, place.key, bytes, condition)).kind === "landed";
    } catch (error) {
      // It may have landed: what was known before is not certain.
      this.#cache.delete(place.key);
      throw error;
    }
  }

  #tick(): Tick {
    return { turn: ++this.#turns, atMs: this.#options.world.monotonicMs() };
  }

  #remember({ key }: Place, values: PolicyValues | undefined, asOf: Tick): void {
    if ((this.#cache.peek(key)?.asOf.turn ?? 0) > asOf.turn) return;
    this.#cache.set(key, { values, asOf });
  }
}
