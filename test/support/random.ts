/** A small seeded generator, so that a failing run can be replayed by its seed. */
export { seeded } from "../../src/base/seeded.ts";
