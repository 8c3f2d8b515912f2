/** A file store whose directory goes while a put is under way: the put fails, and makes no directory in its place. */
import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { realWorld } from "../../../../src/base/world.ts";
import { FileStore } from "../../../../src/store/file/file-store.ts";
import { realFileSystem, type FileSystem } from "../../../../src/store/file/file-system.ts";
import { temporaryDirectory } from "../../../support/temporary.ts";

const absent = { kind: "absent" } as const;

test.each(["mkdir", "link", "rename"] as const)(
  "a directory that is renamed away before the %s of a put stays away, and is whole when it is back",
  async (step) => {
    const folder = temporaryDirectory();
    const [root, away] = [join(folder, "objects"), join(folder, "away")];
    let isDue = false;
    const goesAway = (name: string): void => {
      if (!isDue || name !== step) return;
      isDue = false;
      renameSync(root, away);
    };
    const files: FileSystem = {
      ...realFileSystem,
      mkdir: (...given) => {
        goesAway("mkdir");
        return realFileSystem.mkdir(...given);
      },
      link: (...given) => {
        goesAway("link");
        return realFileSystem.link(...given);
      },
      rename: (...given) => {
        goesAway("rename");
        return realFileSystem.rename(...given);
      },
    };
    const store = await FileStore.open(root, realWorld(), files);
    await store.put("format.json", Buffer.from("{}"), absent);
    isDue = true;
    await expect(store.put("db/one/head/main", Buffer.from("1"), absent)).rejects.toMatchObject({
      kind: expect.stringMatching(/^(unavailable|unknown_outcome)$/),
    });
    expect(existsSync(root)).toBe(false);
    renameSync(away, root);
    expect(await store.put("db/one/head/main", Buffer.from("2"), absent)).toMatchObject({ kind: "stored" });
    expect((await store.get("db/one/head/main"))?.bytes.toString()).toBe("2");
  },
);
