/**
 * What the shell around a binary object says, also of one whose body cannot be read: which byte is not as it must be.
 *
 * Always true: it judges by the shell alone, which is the same for every version of every format (format/core/seal).
 */
import { readShell } from "../../format/core/seal.ts";
import { plain, size, type Fields } from "./account.ts";

/** What the shell says; nothing where there is not even that. */
export function buildShellFields(bytes: Uint8Array): Fields {
  const shell = readShell(bytes);
  return shell ? { format_version: plain(shell.version), body_bytes: size(shell.bodyBytes) } : {};
}

/** Where the shell is not as it must be. `start`: where the bytes begin in their object. */
export function findShellDamage(bytes: Uint8Array, magic: string, start = 0): readonly string[] {
  const shell = readShell(bytes);
  const end = start + bytes.length;
  if (!shell) return [`it ends at byte ${end}, before its magic, version and length are complete`];
  const { bodyBytes, checksumAt } = shell;
  if (shell.magic !== magic) return [`at byte ${start}: the magic is not ${magic}`];
  if (!shell.isWhole)
    return [`at byte ${start + 5}: it says that its body has ${bodyBytes} bytes, and it ends at byte ${end}`];
  if (!shell.isSound)
    return [
      `bytes ${start} to ${start + checksumAt - 1} do not have the checksum that stands at byte ${start + checksumAt}`,
    ];
  return [];
}
