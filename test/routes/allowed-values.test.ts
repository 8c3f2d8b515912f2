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

/** Whether a refusal says that the value is beyond the field's bounds; one that names no such thing may be as short. */
function isOutOfBounds(bounded: BoundedPlace, reply: Reply): boolean {
  if (isForField(bounded, reply)) return true;
  const { code, message } = reply;
  if (code !== "invalid_request" || !message.startsWith(bounded.place)) return false;
  return /^ must (hold|not hold|be (a (whole |finite )?number|at|among|one|\d))/.test(
    message.slice(bounded.place.length),
  );
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
          expect(isOutOfBounds(bounded, reply), what).toBe(false);
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
