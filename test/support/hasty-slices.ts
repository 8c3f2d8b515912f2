/** Time slices that are over when a test says so, between two statements of a command. */
import { SliceOver, type Slices } from "../../src/sqlite/slices.ts";

/**
 * `isOver` is asked now and then, until it has said so once in a slice; `isShared`, whether another tenant is about.
 */
export function hastySlices(isOver: () => boolean, isShared: () => boolean = () => false): Slices {
  return {
    stopped: 0,
    get isShared() {
      return isShared();
    },
    attach: () => {},
    run: (connection, act) => {
      let told = false;
      const look = (): void => {
        if (told || !isOver()) return;
        told = true;
        throw new SliceOver();
      };
      return connection.lookingAt(look, act);
    },
  };
}
