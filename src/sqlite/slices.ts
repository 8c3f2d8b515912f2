/**
 * Time slices of the commands that a thread runs for many tenants.
 *
 * Always true: a command that is stopped has thrown SliceOver, and its caller undoes what it did; nothing is stopped
 * while no other tenant has a call under way on the lane. Must not know: who the tenants are, what is done instead.
 */
import { assert } from "../base/faults/assert.ts";
import type { Connection } from "./connection/connection.ts";
import { control, hasNative, loadLibrary } from "./native.ts";

/** So long a command of our own may compute while another tenant waits; then it is undone and run by a process. */
const sliceMicros = 10_000;

/**
 * A command has used up its time slice while another tenant waits. It is to be undone, and run where no other tenant
 * waits for it.
 */
export class SliceOver extends Error {
  constructor() {
    super("the command takes longer than its time slice");
  }
}

/** Whether the error says that the command was stopped, by a look between its statements or inside of one. */
export function isSliceOver(error: unknown): boolean {
  return error instanceof SliceOver || (error as { code?: unknown } | null)?.code === "SQLITE_INTERRUPT";
}

/** What gives slices to the commands of a thread. */
export interface Slices {
  /** Makes statements of the connection stop at the end of a slice. Once for a connection. */
  attach(connection: Connection): void;
  /** Runs the act within a slice. At its end, if another tenant waits, it throws SliceOver or SQLITE_INTERRUPT. */
  run<Value>(connection: Connection, act: () => Value): Value;
  /** Whether another tenant may have to wait for what runs now. */
  readonly isShared: boolean;
  /** How many commands, or groups of them, were stopped so far. */
  readonly stopped: number;
}

/** Slices of this thread, which is the one of that lane; undefined without the native library. */
export function attachSlices(lane: number): Slices | undefined {
  if (!hasNative()) return undefined;
  const native = control();
  const attached = new WeakMap<Connection, number>();
  let stopped = 0;
  return {
    get stopped() {
      return stopped;
    },
    get isShared() {
      return native.call("slice_shared(?)", lane) !== 0;
    },
    attach: (connection) => {
      loadLibrary(connection.raw, "sqlite3_sqlslices_init");
      attached.set(connection, native.call("slice_attached()") as number);
    },
    run: (connection, act) => {
      const handle = attached.get(connection);
      assert(handle !== undefined, "the connection is attached");
      let told = false;
      const look = (): void => {
        // Once: what undoes the command runs within the slice too.
        if (told || native.call("slice_is_over(?)", lane) === 0) return;
        told = true;
        throw new SliceOver();
      };
      native.call("slice_begin(?, ?, ?)", lane, handle, sliceMicros);
      try {
        return connection.lookingAt(look, act);
      } catch (error) {
        if (isSliceOver(error)) stopped++;
        throw error;
      } finally {
        native.call("slice_end(?)", lane);
      }
    },
  };
}

let isThere: boolean | undefined;

/** Says how many tenants have calls under way on a lane of this process. Without the native library it is not used. */
export function tellTenants(lane: number, count: number): void {
  isThere ??= hasNative();
  if (isThere) control().call("slice_tenants(?, ?)", lane, count);
}
