/** Files over the wires. */
import type { FileEdit as FileEditMessage, FileService } from "../../../gen/palimpsest/v1/file_pb.ts";
import { filesFoundDefault, filesListDefault, type WrittenFile } from "../../model/files/files.ts";
import type { FileEdit } from "../../model/files/file-edits.ts";
import type { WriteInput, WriteKind, WriteOutput } from "../../model/commands.ts";
import { expectedHash, expectsNone, tagged } from "../call/conditions.ts";
import { engineOptions, seen, type Context, type ServiceHandlers } from "../call/context.ts";
import { present } from "../call/data-messages.ts";
import type { NodeParts } from "./node-parts.ts";
import { databaseTarget } from "./targets.ts";

type FileHandlers = ServiceHandlers<typeof FileService>;
type FileWrite = Extract<WriteKind, `file.${string}`>;

function toEdit(edit: FileEditMessage): FileEdit {
  const { oldText, afterLine, firstLine, lastLine, replaceAll, text } = edit;
  return { text, replaceAll, ...present({ oldText, afterLine, firstLine, lastLine }) };
}

/** Runs a write on the database of the call. */
async function write<Kind extends FileWrite>(
  node: NodeParts,
  context: Context,
  db: string,
  kind: Kind,
  input: WriteInput<Kind>,
  bytes = 0,
): Promise<{ readonly value: WriteOutput<Kind>; readonly txid: bigint }> {
  const target = await databaseTarget(node, context, db);
  return seen(context, await node.engine.write(target, kind, input, engineOptions(context, bytes)));
}

function writers(node: NodeParts): Pick<FileHandlers, "putFile" | "editFile" | "moveFiles" | "deleteFiles"> {
  const written = (context: Context, { value, txid }: { value: WrittenFile; txid: bigint }) => {
    tagged(context, value.hash);
    return { ...value, txid };
  };
  return {
    async putFile({ db, path, text, ifMatch, ifAbsent, subject }, context) {
      const expected = {
        ...expectedHash(ifMatch, context),
        ...expectsNone(ifAbsent, context),
        ...present({ subject }),
      };
      return written(context, await write(node, context, db, "file.put", { path, text, ...expected }, text.length));
    },
    async editFile({ db, path, edits, ifMatch }, context) {
      const input = { path, edits: edits.map(toEdit), ...expectedHash(ifMatch, context) };
      const bytes = edits.reduce((sum, { text, oldText = "" }) => sum + text.length + oldText.length, 0);
      return written(context, await write(node, context, db, "file.edit", input, bytes));
    },
    async moveFiles({ db, path, to, overwrite }, context) {
      const { value, txid } = await write(node, context, db, "file.move", { path, to, overwrite });
      return { ...value, txid };
    },
    async deleteFiles({ db, path, recursive, purge, ifMatch }, context) {
      const input = { path, recursive, purge, ...expectedHash(ifMatch, context) };
      const { value, txid } = await write(node, context, db, "file.delete", input);
      return { ...value, txid };
    },
  };
}

function readers(node: NodeParts): Pick<FileHandlers, "getFile" | "listFiles" | "listFileVersions" | "searchFiles"> {
  return {
    async getFile({ db, path, version, firstLine, lastLine }, context) {
      const target = await databaseTarget(node, context, db);
      const input = { path, ...present({ version, firstLine, lastLine }) };
      const { value, txid } = seen(context, await node.engine.read(target, "file.get", input, engineOptions(context)));
      tagged(context, value.hash);
      return { ...value, updatedAt: BigInt(value.updatedAt), txid };
    },
    async listFiles({ db, folder, recursive, limit = filesListDefault, cursor }, context) {
      const target = await databaseTarget(node, context, db);
      const input = { folder, recursive, limit, ...present({ cursor }) };
      const { value, txid } = seen(context, await node.engine.read(target, "file.list", input, engineOptions(context)));
      const entries = value.entries.map(({ updatedAt, ...entry }) => ({
        ...entry,
        ...(updatedAt === undefined ? {} : { updatedAt: BigInt(updatedAt) }),
      }));
      return { entries, ...present({ nextCursor: value.nextCursor }), txid };
    },
    async listFileVersions({ db, path }, context) {
      const target = await databaseTarget(node, context, db);
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "file.versions", { path }, engineOptions(context)),
      );
      const versions = value.versions.map(({ writtenAt, writtenTxid, ...version }) => ({
        ...version,
        writtenTxid: BigInt(writtenTxid),
        writtenAt: BigInt(writtenAt),
      }));
      return { versions, txid };
    },
    async searchFiles({ db, query, folder, k = filesFoundDefault }, context) {
      const target = await databaseTarget(node, context, db);
      const { value, txid } = seen(
        context,
        await node.engine.read(target, "file.search", { query, folder, k }, engineOptions(context)),
      );
      return { hits: [...value.hits], txid };
    },
  };
}

/** The handlers of files. */
export function fileHandlers(node: NodeParts): FileHandlers {
  return { ...writers(node), ...readers(node) };
}
