/** Which names there are, what is refused as one, and the record that claims one. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/faults/errors.ts";
import { decodeNameClaim, encodeNameClaim } from "../../../../src/format/records/name-claim.ts";
import {
  checkBranchName,
  checkCollectionName,
  checkKvKey,
  checkNewDatabaseName,
  isDatabaseName,
  isNamePart,
  parseDatabaseSpec,
  profileDatabaseName,
  parseProfileDatabaseName,
} from "../../../../src/format/core/names.ts";
import { parseNameClaimKey, nameClaimKey } from "../../../../src/format/keys/object-keys.ts";

describe("names", () => {
  test("auth-19: parts of a profile's name", () => {
    for (const good of ["alice", "support-bot", "a1_b-2", "0", "a".repeat(64)])
      expect(isNamePart(good), good).toBe(true);
    for (const bad of ["", "a--b", "team-", "-team", "Team", "a".repeat(65), "a b", "ä", "a/b", "a@b"])
      expect(isNamePart(bad), bad).toBe(false);
  });

  test("core-03: a plain database's name has no @, / or --", () => {
    for (const good of ["a", "my-db", "x_1"]) expect(checkNewDatabaseName(good)).toBe(good);
    for (const bad of ["", "a@b", "a/b", "a--b", "A", "-a", "_a", "a.b", "a".repeat(65)])
      expect(() => checkNewDatabaseName(bad), bad).toThrow(/name must be/);
  });

  test("a database spec gives name and branch", () => {
    expect(parseDatabaseSpec("acme--alice@dev.1")).toEqual({ name: "acme--alice", branch: "dev.1" });
    expect(parseDatabaseSpec("plain")).toEqual({ name: "plain", branch: undefined });
    for (const bad of ["", "@x", "a@", "a@.x", "a@b@c", "a--b--c", "A", "a/b", "--", "a--"])
      expect(() => parseDatabaseSpec(bad), bad).toThrow();
  });

  test("profile names and their databases are one to one", () => {
    const part = fc.stringMatching(/^[a-z0-9][a-z0-9_-]{0,20}$/).filter(isNamePart);
    fc.assert(
      fc.property(part, part, (namespace, profile) => {
        const name = profileDatabaseName(namespace, profile);
        expect(parseProfileDatabaseName(name)).toEqual({ namespace, profile });
        expect(isDatabaseName(name)).toBe(true);
        expect(parseNameClaimKey(nameClaimKey(name))).toBe(name);
      }),
    );
  });

  test("any text is either a name or refused with invalid_request, never anything else", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        for (const check of [
          checkNewDatabaseName,
          checkBranchName,
          checkKvKey,
          parseDatabaseSpec,
          (name: string) => checkCollectionName("collection", name),
        ]) {
          try {
            check(text);
          } catch (error) {
            expect(error).toMatchObject({ name: "ServiceError", code: "invalid_request" });
          }
        }
      }),
    );
  });

  test("a key-value key is 1 to 512 bytes of whatever UTF-8", () => {
    expect(checkKvKey("päth/with spaces?&#")).toBeTruthy();
    expect(checkKvKey("é".repeat(256))).toBeTruthy();
    for (const bad of ["", "é".repeat(257), "\ud800"]) expect(() => checkKvKey(bad)).toThrow(/key must be/);
  });
});

describe("name claim", () => {
  test("round trip and the bytes of version 1", () => {
    const live = { uuid: "u-1", createdAtMs: 5, deletedAtMs: undefined };
    const dead = { uuid: "u-1", createdAtMs: 5, deletedAtMs: 9 };
    expect(decodeNameClaim(encodeNameClaim(live))).toEqual(live);
    expect(decodeNameClaim(encodeNameClaim(dead))).toEqual(dead);
    expect(Buffer.from(encodeNameClaim(dead)).toString()).toBe('{"v":1,"uuid":"u-1","created_at":5,"deleted_at":9}');
  });

  test("auth-17: a claim remembers when its name was last taken; one from before that is read without", () => {
    const again = { uuid: "u-2", createdAtMs: 10, deletedAtMs: undefined, freedAtMs: 9 };
    expect(decodeNameClaim(encodeNameClaim(again))).toEqual(again);
    expect(decodeNameClaim(Buffer.from('{"v":1,"uuid":"u-1","created_at":5}'))).toEqual({
      uuid: "u-1",
      createdAtMs: 5,
    });
    expect(() => decodeNameClaim(Buffer.from('{"v":1,"uuid":"u-1","created_at":5,"freed_at":"9"}'))).toThrow(
      StoreError,
    );
  });

  test("anything else is corrupt, never absent", () => {
    for (const bad of [
      "",
      "{",
      "null",
      "[]",
      '{"v":2,"uuid":"u","created_at":1}',
      '{"v":1,"uuid":7,"created_at":1}',
      '{"v":1,"uuid":"u","created_at":1.5}',
    ]) {
      expect(() => decodeNameClaim(Buffer.from(bad)), bad).toThrow(StoreError);
    }
  });
});
