/**
 * What the proto files allow, and nothing else, holds on every wire: of each bounded field of each method a value just
 * inside is not refused for that field, and one just outside is refused by a text that names the field and says what is
 * allowed. The fields and the values are found in the descriptors.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ScalarType } from "@bufbuild/protobuf";
import { type Endpoint, endpoints, isStream } from "../../src/service/call/methods.ts";
import { boundaryValues, type BoundedPlace, listBoundedFields, listBoundedPlaces } from "../support/allowed-values.ts";
import { sampleRequests } from "../support/requests.ts";
import { useService } from "../support/service.ts";
import { connectWire, type Reply, type Wire } from "../support/wires.ts";

const service = useService({ SERVICE_MAX_BODY_BYTES: String(8 * 1024 * 1024) });
const reached = new Set<string>();
let wires: readonly Wire<string>[] = [];

beforeAll(() => {
  wires = [service().wire("rest"), service().wire("grpc"), connectWire(service().address)];
});
afterAll(() => wires.at(-1)?.close());

/** Whether the wire can carry the value at all: others are refused before their bounds are looked at. */
function canCarry({ name }: Wire<string>, endpoint: Endpoint, { field }: BoundedPlace, value: unknown): boolean {
  const isInPath = endpoint.segments.some((segment) => segment.kind === "field" && segment.field === field);
  if (name === "rest" && isInPath) return value !== "" && value !== "." && value !== "..";
  if (field.fieldKind === "scalar" && field.scalar === ScalarType.UINT32)
    return typeof value !== "number" || (value >= 0 && value < 2 ** 32);
  return true;
}

/** Whether a refusal is for the field; access by name comes before, and names it otherwise. */
function isForField({ place, constraint }: BoundedPlace, { code, message }: Reply): boolean {
  if (code !== "invalid_request" || !message.startsWith(place)) return false;
  const said = message.slice(place.length);
  if (constraint.kind !== "list") return said === ` ${constraint.says}`;
  return (constraint.items ? /^(\[\d+\])? must / : /^ must /).test(said);
}

/**
 * What no annotation says of a value within its bounds, because of what stands beside it or in the database: the whole
 * of such a refusal, which names the field or those that it does not go with.
 */
const otherReasons: readonly RegExp[] = [
  /^give either ids or filter; an empty filter holds of every vector$/,
  /^give either vector or id$/,
  /^give exactly one of last, from_seq, seq, turn_id and all$/,
  /^give exactly one target: memory_id, topic_key \(with type\), session_id \(with turns, or with seq\), path, /,
  /^give derived_from_memory or derived_from_session, not both$/,
  /^derived_from_seq goes with derived_from_session$/,
  /^memories\[0\]\.derived_from\[0\]\.turn_id goes with a session_id, in the place of seq$/,
  /^memories\[0\]\.derived_from\[0\]\.seq (belongs to a session_id|must be the number of a turn, from 1)$/,
  /^memories\[0\]\.derived_from\[0\] names no memory that is there$/,
  /^memories\[0\]\.derived_from\[0\]: give exactly one of memory_id and session_id$/,
  /^memories\[0\]\.valid_from must be before valid_until: at that time it holds no more$/,
  /^memories\[0\]\.ttl is allowed on task only$/,
  /^since must be before until: what is stored at since is given, what is stored at until is not$/,
  /^sections\[1\]\.name is given twice: a section stands in a block once$/,
  /^items\[1\]\.key names a key that an item before it has named$/,
  /^expected\[0\] must have at least one of seq, turn_id and content_sha256$/,
  /^(vectors\[0\]\.)?embedding has \d+ numbers, but collection c has dimension 2, fixed by its first vector$/,
  /^metric is \w+, but collection c has metric cosine, fixed by its first vector$/,
  /^url must be an https:\/\/ address of at most 2048 bytes$/,
  /^after must be a transaction that the branch has given, or 0$/,
  // Lengths of parts, bytes that are no text, and languages: no pattern tells them.
  /^db must be a name of a-z, 0-9, _ and - \(1 to 64 characters\), optionally followed by @branch$/,
  /^(path|to|folder) must have parts of at most 255 bytes$/,
  /^text must be valid UTF-8 without U\+0000$/,
  /^statement 0: q must (hold a statement|not contain the NUL character)$/,
  /^statement 0: a statement must start with one of SELECT, .* or EXPLAIN$/,
];
const seenReasons = new Set<RegExp>();

/** Whether a refusal of a value within its bounds has one of the other reasons; else it is of an unsaid bound. */
function isForAnother({ message }: Reply): boolean {
  const reason = otherReasons.find((one) => one.test(message));
  if (reason) seenReasons.add(reason);
  return reason !== undefined;
}

/** Streams are not called by these wires; what they allow is checked in the same place. */
const unary = endpoints.filter((endpoint) => !isStream(endpoint));

describe.each(unary.map((endpoint) => [endpoint.name, endpoint] as const))("%s", (name, endpoint) => {
  test("takes what is allowed and refuses what is not", async () => {
    const sample = sampleRequests(await service().database(), service().profile()).get(name)!;
    for (const bounded of listBoundedPlaces(endpoint.method.input, sample)) {
      reached.add(bounded.name);
      const { field, constraint } = bounded;
      const given = sample[field.name];
      const isOpen =
        field.fieldKind === "list" && field.message && (given === undefined || [given].flat().length === 0);
      const like = isOpen ? [{}] : given;
      const { inside, outside } = boundaryValues(constraint, like);
      expect(outside.length, `${bounded.place} allows everything`).toBeGreaterThan(0);
      for (const wire of wires) {
        for (const value of inside.filter((one) => canCarry(wire, endpoint, bounded, one))) {
          const reply = await wire.call(name, bounded.put(value));
          const what = `${wire.name}: ${bounded.place} = ${JSON.stringify(value)?.slice(0, 80)}: ${reply.message}`;
          if (reply.code === "invalid_request") expect(isForAnother(reply), what).toBe(true);
          expect(reply.code, what).not.toBe("internal");
        }
        for (const value of outside.filter((one) => canCarry(wire, endpoint, bounded, one))) {
          const reply = await wire.call(name, bounded.put(value));
          const what = `${wire.name}: ${bounded.place} = ${JSON.stringify(value)?.slice(0, 80)}: ${reply.message}`;
          expect(isForField(bounded, reply), what).toBe(true);
        }
      }
    }
  });
});

test("every bounded field of every request was reached", () => {
  const known = new Set(unary.flatMap(({ method }) => listBoundedFields(method.input)));
  expect([...known].filter((field) => !reached.has(field))).toEqual([]);
});

test("no other reason is named that no refusal had", () => {
  expect(otherReasons.filter((reason) => !seenReasons.has(reason))).toEqual([]);
});
