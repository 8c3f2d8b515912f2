/** Lists that come in pages, as one sequence. */

/** A page of a list. */
export interface Page {
  readonly nextCursor?: string | null | undefined;
}

/** Goes through all pages; the next one is asked for when the one before is used up. */
export async function* inPages<Answer extends Page, Item>(
  ask: (cursor: string | undefined) => Promise<Answer>,
  take: (page: Answer) => readonly Item[],
): AsyncGenerator<Item, void, undefined> {
  let cursor: string | undefined;
  do {
    const page = await ask(cursor);
    yield* take(page);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
}
