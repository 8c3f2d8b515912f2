/**
 * A file system in memory that does what disks do: it fills up, fails, answers wrongly, and forgets at a power loss
 * what was not synced. Deterministic, without real I/O: time is a count of steps, chance is given.
 *
 * It knows files and directories by inode, and of each what is there and what is on stable storage: a file's bytes as
 * of its last sync, a directory's entries as of its last sync. Everything else may survive a power loss or not, each
 * name and each file by itself, which is more than any real file system loses.
 */
import { posix } from "node:path";
import type { Draft, FileFacts, FileSystem } from "../../src/store/file/file-system.ts";

interface FileNode {
  readonly kind: "file";
  readonly id: number;
  bytes: Buffer;
  /** What a power loss leaves at least. */
  synced: Buffer;
  links: number;
  modifiedAtMs: number;
}

interface DirectoryNode {
  readonly kind: "directory";
  readonly id: number;
  readonly entries: Map<string, Node>;
  synced: ReadonlyMap<string, Node>;
  modifiedAtMs: number;
}

type Node = FileNode | DirectoryNode;

/** The names of the port's steps. */
export type Step = keyof FileSystem | "write" | "sync";

/** What becomes of a step. */
export type Fate =
  | "fine"
  /** It is not carried out, and says so. */
  | { readonly fails: string }
  /** It is carried out, and says that it is not. */
  | { readonly answers: string }
  /** A write takes so many bytes and says so. */
  | { readonly takes: number }
  /** The power goes, before the step or after it. */
  | "cut"
  | "cut after";

/** Which unsynced things survive a power loss. */
export interface Loss {
  name(): boolean;
  data(): "whole" | "none" | "cut" | "zeroed";
}

/** Faults of a disk, or of its driver, that nobody is told of: planted, to see that a test sees them. */
export interface Lies {
  /** A sync of a file does nothing. */
  readonly file?: boolean;
  /** A sync of a directory does nothing. */
  readonly directory?: boolean;
  /** A write claims to have taken everything. */
  readonly counts?: boolean;
}

export interface FaultyFilesOptions {
  /** Decides on a step by its number, counted from 1, by its name and path. */
  readonly fate?: (step: number, name: Step, path: string) => Fate;
  readonly lies?: Lies;
  readonly nowMs?: () => number;
}

function problem(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}

export class FaultyFiles implements FileSystem {
  options: FaultyFilesOptions;
  /** Steps so far. */
  steps = 0;
  #ids = 0;
  #root: DirectoryNode;
  #isDown = false;

  constructor(options: FaultyFilesOptions = {}) {
    this.options = options;
    this.#root = this.#newDirectory();
  }

  /** The power is gone: every step fails until `lose` gives what is left. */
  get isDown(): boolean {
    return this.#isDown;
  }

  /** Every file's path, for a look at what is left behind. */
  paths(): { readonly files: string[]; readonly directories: string[] } {
    const [files, directories]: [string[], string[]] = [[], []];
    const walk = (node: DirectoryNode, path: string): void => {
      for (const [name, child] of node.entries) {
        (child.kind === "file" ? files : directories).push(`${path}/${name}`);
        if (child.kind === "directory") walk(child, `${path}/${name}`);
      }
    };
    walk(this.#root, "");
    return { files, directories };
  }

  /** What stands on the disk when the power comes back. */
  lose(loss: Loss): FaultyFiles {
    const left = new FaultyFiles(this.options);
    left.steps = this.steps;
    left.#ids = this.#ids;
    const known = new Map<Node, Node>();
    const file = (node: FileNode): FileNode => {
      const bytes = node.bytes.equals(node.synced) ? node.bytes : survivor(node, loss);
      return { ...node, bytes, synced: bytes, links: 0 };
    };
    const copy = (node: Node): Node => {
      const found = known.get(node);
      if (found) return found;
      if (node.kind === "file") {
        const made = file(node);
        known.set(node, made);
        return made;
      }
      const entries = new Map<string, Node>();
      const made: DirectoryNode = { ...node, entries, synced: entries };
      known.set(node, made);
      for (const name of new Set([...node.synced.keys(), ...node.entries.keys()])) {
        const [before, now] = [node.synced.get(name), node.entries.get(name)];
        const kept = before === now || loss.name() ? now : before;
        if (!kept) continue;
        const child = copy(kept);
        entries.set(name, child);
        if (child.kind === "file") child.links++;
      }
      made.synced = new Map(entries);
      return made;
    };
    left.#root = copy(this.#root) as DirectoryNode;
    return left;
  }

  create(path: string): Promise<Draft> {
    return this.#step("create", path, () => {
      const { directory, name } = this.#findParent(path);
      if (directory.entries.has(name)) throw problem("EEXIST", path);
      const node: FileNode = {
        kind: "file",
        id: ++this.#ids,
        bytes: Buffer.alloc(0),
        synced: Buffer.alloc(0),
        links: 1,
        modifiedAtMs: this.#nowMs(),
      };
      this.#enter(directory, name, node);
      return this.#buildDraft(node, path);
    });
  }

  read(path: string): Promise<FileFacts & { readonly content: Buffer }> {
    return this.#step("read", path, () => {
      const node = this.#find(path);
      if (node.kind !== "file") throw problem("EISDIR", path);
      return { ...toFacts(node), content: Buffer.from(node.bytes) };
    });
  }

  stat(path: string): Promise<FileFacts> {
    return this.#step("stat", path, () => toFacts(this.#find(path)));
  }

  link(file: string, name: string): Promise<void> {
    return this.#step("link", name, () => {
      const node = this.#find(file);
      if (node.kind !== "file") throw problem("EPERM", file);
      const to = this.#findParent(name);
      if (to.directory.entries.has(to.name)) throw problem("EEXIST", name);
      node.links++;
      this.#enter(to.directory, to.name, node);
    });
  }

  rename(from: string, to: string): Promise<void> {
    return this.#step("rename", to, () => {
      const node = this.#find(from);
      const [source, target] = [this.#findParent(from), this.#findParent(to)];
      const there = target.directory.entries.get(target.name);
      if (there?.kind === "directory" && there.entries.size > 0) throw problem("ENOTEMPTY", to);
      if (there && there.kind !== node.kind) throw problem(node.kind === "file" ? "EISDIR" : "ENOTDIR", to);
      if (there?.kind === "file") there.links--;
      source.directory.entries.delete(source.name);
      source.directory.modifiedAtMs = this.#nowMs();
      this.#enter(target.directory, target.name, node);
    });
  }

  unlink(path: string): Promise<void> {
    return this.#step("unlink", path, () => {
      const node = this.#find(path);
      if (node.kind !== "file") throw problem("EISDIR", path);
      const { directory, name } = this.#findParent(path);
      node.links--;
      directory.entries.delete(name);
      directory.modifiedAtMs = this.#nowMs();
    });
  }

  mkdir(path: string, below = ""): Promise<string | undefined> {
    return this.#step("mkdir", path, () => {
      let node: Node = this.#root;
      let first: string | undefined;
      let walked = "";
      for (const name of splitPath(path)) {
        walked += `/${name}`;
        if (node.kind !== "directory") throw problem("ENOTDIR", path);
        if (!node.entries.has(name)) {
          if (walked.length <= below.length) throw problem("ENOENT", path);
          this.#enter(node, name, this.#newDirectory());
          first ??= walked;
        }
        node = node.entries.get(name)!;
      }
      if (node.kind !== "directory") throw problem("EEXIST", path);
      return first;
    });
  }

  rmdir(path: string): Promise<void> {
    return this.#step("rmdir", path, () => {
      const node = this.#find(path);
      if (node.kind !== "directory") throw problem("ENOTDIR", path);
      if (node.entries.size > 0) throw problem("ENOTEMPTY", path);
      const { directory, name } = this.#findParent(path);
      directory.entries.delete(name);
      directory.modifiedAtMs = this.#nowMs();
    });
  }

  readdir(path: string): Promise<string[]> {
    return this.#step("readdir", path, () => {
      const node = this.#find(path);
      if (node.kind !== "directory") throw problem("ENOTDIR", path);
      return [...node.entries.keys()];
    });
  }

  syncDirectory(path: string): Promise<string> {
    return this.#step("syncDirectory", path, () => {
      const node = this.#find(path);
      if (node.kind !== "directory") throw problem("ENOTDIR", path);
      if (!this.options.lies?.directory) node.synced = new Map(node.entries);
      return String(node.id);
    });
  }

  #buildDraft(node: FileNode, path: string): Draft {
    return {
      write: (parts) => {
        const all = Buffer.concat(parts);
        const taking = (bytes: Buffer, claimed: number): number => {
          node.bytes = Buffer.concat([node.bytes, bytes]);
          node.modifiedAtMs = this.#nowMs();
          return claimed;
        };
        return this.#step(
          "write",
          path,
          () => taking(all, all.length),
          (bytes) =>
            taking(all.subarray(0, bytes), this.options.lies?.counts ? all.length : Math.min(bytes, all.length)),
        );
      },
      sync: () =>
        this.#step("sync", path, () => {
          if (!this.options.lies?.file) node.synced = node.bytes;
        }),
      stat: () => this.#step("stat", path, () => toFacts(node)),
      close: async () => {},
    };
  }

  async #step<Value>(name: Step, path: string, act: () => Value, taking?: (bytes: number) => Value): Promise<Value> {
    if (this.#isDown) throw problem("EIO", path);
    const fate = this.options.fate?.(++this.steps, name, path) ?? "fine";
    if (fate === "fine") return act();
    if (fate === "cut" || fate === "cut after") {
      if (fate === "cut after") attempt(act);
      this.#isDown = true;
      throw problem("EIO", path);
    }
    if ("fails" in fate) throw problem(fate.fails, path);
    if ("takes" in fate) return taking ? taking(fate.takes) : act();
    act();
    throw problem(fate.answers, path);
  }

  #nowMs(): number {
    return this.options.nowMs?.() ?? 0;
  }

  #newDirectory(): DirectoryNode {
    return { kind: "directory", id: ++this.#ids, entries: new Map(), synced: new Map(), modifiedAtMs: this.#nowMs() };
  }

  #enter(directory: DirectoryNode, name: string, node: Node): void {
    directory.entries.set(name, node);
    directory.modifiedAtMs = this.#nowMs();
  }

  #find(path: string): Node {
    let node: Node = this.#root;
    for (const name of splitPath(path)) {
      if (node.kind !== "directory") throw problem("ENOTDIR", path);
      const next = node.entries.get(name);
      if (!next) throw problem("ENOENT", path);
      node = next;
    }
    return node;
  }

  #findParent(path: string): { readonly directory: DirectoryNode; readonly name: string } {
    const directory = this.#find(posix.dirname(path));
    if (directory.kind !== "directory") throw problem("ENOTDIR", path);
    return { directory, name: posix.basename(path) };
  }
}

function splitPath(path: string): string[] {
  return path.split("/").filter((name) => name !== "");
}

function attempt(act: () => unknown): void {
  try {
    act();
  } catch {
    // The power goes all the same.
  }
}

function toFacts(node: Node): FileFacts {
  const [bytes, links] = node.kind === "file" ? [node.bytes.length, node.links] : [0, 1];
  return { bytes, links, modifiedAtMs: node.modifiedAtMs, identity: String(node.id), place: String(node.id) };
}

function survivor(node: FileNode, loss: Loss): Buffer {
  switch (loss.data()) {
    case "whole":
      return node.bytes;
    case "none":
      return node.synced;
    case "cut":
      return node.bytes.subarray(0, Math.ceil(node.bytes.length / 2));
    case "zeroed":
      return Buffer.alloc(node.bytes.length);
  }
}

/** The same file system, each step of which waits for its turn first: so a test orders the steps of several stores. */
export function inTurns(files: FileSystem, turn: () => Promise<void>): FileSystem {
  const waiting =
    <Arguments extends unknown[], Value>(step: (...given: Arguments) => Promise<Value>) =>
    async (...given: Arguments): Promise<Value> => {
      await turn();
      return step(...given);
    };
  return {
    create: waiting(async (path) => {
      const draft = await files.create(path);
      return {
        write: waiting((parts) => draft.write(parts)),
        sync: waiting(() => draft.sync()),
        stat: waiting(() => draft.stat()),
        close: () => draft.close(),
      };
    }),
    read: waiting((path) => files.read(path)),
    stat: waiting((path) => files.stat(path)),
    link: waiting((file, name) => files.link(file, name)),
    rename: waiting((from, to) => files.rename(from, to)),
    unlink: waiting((path) => files.unlink(path)),
    mkdir: waiting((path, below) => files.mkdir(path, below)),
    rmdir: waiting((path) => files.rmdir(path)),
    readdir: waiting((path) => files.readdir(path)),
    syncDirectory: waiting((path) => files.syncDirectory(path)),
  };
}
