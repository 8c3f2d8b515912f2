/** Places of streams of changes: nobody has more than a share, and what is released is there for others. */
import { expect, test } from "vitest";
import {
  StreamPlaces,
  streamsMax,
  streamsOfDatabaseMax,
  streamsOfTenantMax,
} from "../../../../src/service/feed/stream-places.ts";
import { refused } from "../../../support/refused.ts";

/** Takes so many places for a tenant, over as many databases as it needs. */
function fill(places: StreamPlaces, tenant: string, count: number): (() => void)[] {
  return Array.from({ length: count }, (_, at) =>
    places.enter({ uuid: `${tenant}-${Math.floor(at / streamsOfDatabaseMax)}`, tenant }),
  );
}

test("a tenant that has its share is refused while another one finds a place", () => {
  const places = new StreamPlaces();
  const leave = fill(places, "greedy", streamsOfTenantMax);
  const { code, message } = refused(() => places.enter({ uuid: "greedy-more", tenant: "greedy" }));
  expect({ code, message }).toMatchObject({ code: "overloaded", message: expect.stringContaining("this tenant") });
  places.enter({ uuid: "modest-0", tenant: "modest" });
  leave[0]!();
  // Twice is once.
  leave[0]!();
  places.enter({ uuid: "greedy-more", tenant: "greedy" });
  expect(refused(() => places.enter({ uuid: "greedy-more", tenant: "greedy" })).code).toBe("overloaded");
});

test("a database has its own bound, and the node one for all", () => {
  const places = new StreamPlaces();
  fill(places, "one", streamsOfDatabaseMax);
  expect(refused(() => places.enter({ uuid: "one-0", tenant: "one" })).message).toContain("of the database's");
  const tenants = (streamsMax - streamsOfDatabaseMax) / streamsOfDatabaseMax;
  for (let at = 0; at < tenants; at++) fill(places, `other-${at}`, streamsOfDatabaseMax);
  const { message, detail } = refused(() => places.enter({ uuid: "late", tenant: "late" }));
  expect(message).toContain(`${streamsMax} streams of changes`);
  expect(detail.retryAfterSecs).toBeGreaterThan(0);
});
