/**
 * Which lines a block has room for, and which of them are cut.
 *
 * Always true: what is given counts no more than the room; a line is given once in the block; the same offers in the
 * same room give the same. Each section first gets its share of the room; what all of them leave goes to the first that
 * has more to show, what that leaves to the next: so the order of sections is that in which they matter. Must not know:
 * where lines come from.
 */
import { headingQuarters, lineText, type BlockFormat, type LineAbout } from "./block-text.ts";
import { cut } from "./shown-text.ts";
import type { SaidText } from "./stored-text.ts";
import { countQuarters } from "./token-count.ts";

/** A line that a section could have. */
export interface OfferedLine extends SaidText {
  readonly about: LineAbout;
}

/** What a section could show, the most wanted first. */
export interface Offer {
  readonly name: string;
  readonly sessionId?: string | undefined;
  readonly share: number;
  /** Ids of the lines. */
  readonly ids: readonly string[];
  /** The line at this place; asked for as far as there is room. */
  readonly line: (at: number) => OfferedLine;
  /** Whether there may be more lines than were looked at. */
  readonly more: boolean;
  /** Whether a line is to be whole or not to be there. */
  readonly isUncut?: boolean;
  /** Whether the lines stand in the other order than they are wanted in. */
  readonly isReversed?: boolean;
}

interface PlacedLine {
  readonly id: string;
  readonly text: string;
  readonly isCut: boolean;
}

/** What a section shows. */
export interface Placed {
  readonly lines: readonly PlacedLine[];
  /** Lines that were looked at and are not shown, here nor elsewhere. */
  readonly leftOut: number;
  /** What it counts, heading and all. */
  readonly quarters: number;
}

/** A beginning that tells less than this is not shown. */
const cutQuartersMin = 48;
/** Lines of one section that are looked at and found too long before it is given up. */
const misfitsMax = 32;

/** How much room there is, and how what is in it is written. */
export interface Room {
  readonly format: BlockFormat;
  readonly quarters: number;
  /** No line that may be cut counts more. */
  readonly lineQuarters: number;
}

/** What a section shows so far. */
type Filled = Pick<Placed, "lines" | "quarters">;

/** The lines of each offer for which there is room. */
export function makeRoom(offers: readonly Offer[], room: Room): readonly Placed[] {
  const filled: Filled[] = offers.map(() => ({ lines: [], quarters: 0 }));
  const shownBy = (is: (at: number) => boolean): ReadonlySet<string> =>
    new Set(filled.flatMap(({ lines }, at) => (is(at) ? lines.map(({ id }) => id) : [])));
  /** Fills a section anew, and gives what it leaves. */
  const fill = (at: number, quarters: number): number => {
    const elsewhere = shownBy((other) => other !== at);
    filled[at] = fillSection(offers[at]!, { ...room, quarters }, elsewhere);
    return quarters - filled[at].quarters;
  };
  const shares = offers.reduce((sum, { share }) => sum + share, 0);
  let left = room.quarters;
  for (const [at, { share }] of offers.entries()) {
    const part = Math.floor((room.quarters * share) / shares);
    left += fill(at, part) - part;
  }
  for (const at of offers.keys()) {
    const { lines, quarters } = filled[at]!;
    if (lines.length < offers[at]!.ids.length || lines.some(({ isCut }) => isCut)) left = fill(at, quarters + left);
  }
  const shown = shownBy(() => true);
  return filled.map(({ lines, quarters }, at) => ({
    lines: offers[at]!.isReversed ? lines.toReversed() : lines,
    leftOut: offers[at]!.ids.filter((id) => !shown.has(id)).length,
    quarters,
  }));
}

function fillSection(offer: Offer, room: Room, elsewhere: ReadonlySet<string>): Filled {
  const lines: PlacedLine[] = [];
  let left = room.quarters - headingQuarters(room.format, { name: offer.name, sessionId: offer.sessionId });
  let misfits = 0;
  for (const [at, id] of offer.ids.entries()) {
    if (left <= 0 || misfits >= misfitsMax) break;
    if (elsewhere.has(id)) continue;
    const line = writeLine(offer, at, { ...room, quarters: left });
    if (line) {
      lines.push({ id, ...line });
      left -= countQuarters(line.text);
      continue;
    }
    // Where none is cut a shorter one may fit; elsewhere there is no room left that is worth it.
    if (!offer.isUncut) break;
    misfits++;
  }
  return lines.length === 0 ? { lines, quarters: 0 } : { lines, quarters: room.quarters - left };
}

/** The line as it fits the room, cut if need be; undefined when it does not. */
function writeLine(
  { line, isUncut = false }: Offer,
  at: number,
  { format, quarters, lineQuarters }: Room,
): Omit<PlacedLine, "id"> | undefined {
  const { about, text, isWhole } = line(at);
  const most = isUncut ? quarters : Math.min(quarters, lineQuarters);
  const write = (shown: string): string => lineText(format, about, shown);
  // Every character counts something.
  const fits = (shown: string): boolean => shown.length <= most && countQuarters(write(shown)) <= most;
  if (isWhole && fits(text)) return { text: write(text), isCut: false };
  if (isUncut) return undefined;
  const beginning = cut(text, most, fits);
  const isTooShort = (shown: string): boolean => shown.length < text.length && countQuarters(shown) < cutQuartersMin;
  if (beginning === undefined || isTooShort(beginning)) return undefined;
  return { text: write(beginning), isCut: true };
}
