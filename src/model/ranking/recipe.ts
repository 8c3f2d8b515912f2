/**
 * Every constant of the ranking, by words and by vectors.
 *
 * Always true: each was chosen on two sets of conversations at once, LoCoMo and BEAM, and on the development half of
 * the small stores, never on one alone, but for what no set asks about, which says so; docs/recall.md says what each is
 * worth, and `npm run eval -- --set NAME=VALUE` asks again. Raise `rankingVersion` (model/recall.ts) with any of them.
 */
export const recipe = {
  /** Rows that are looked into, unless more hits are wanted. 60, 100 and 200 find the same. */
  poolMin: 60,
  /** For each row of the pool so many more are weighed by what they hold and how long they are. */
  candidatesPerRow: 4,
  /** Not more than that, unless more hits are wanted. */
  candidatesMax: 1_000,
  /** Text that one question looks into, in characters: about 10 ms. */
  textCharsMax: 1024 * 1024,

  /** BM25: how soon more of a word adds nothing, and how much length counts. */
  k1: 0.8,
  b: 0.4,
  /** What a word in the topic or an alias, and in the summary, counts beside one in the body. */
  topicWeight: 4,
  summaryWeight: 1.5,
  /** What a word of the question's frame ("list the order of …") counts beside one of what it is about. */
  frameWeight: 0.3,

  /** Characters of a paragraph, and how much the best paragraph's share of the question counts. */
  paragraphChars: 250,
  shareExponent: 0.6,
  /** Rows of up to this many words are one paragraph as a whole. */
  wholeWords: 60,
  /** What two successive words of the question count that stand together, with at most so many words between. */
  pairWeight: 0.35,
  pairGap: 5,

  /** What a row gets of the scores of those one and two places beside it in its session. */
  neighbourOne: 0.3,
  neighbourTwo: 0.2,
  /** Rows of more words than this lose by their length, to this power. A pair of letters is half a word. */
  pivotWords: 60,
  lengthExponent: 0.35,
  /** What a row counts whose speaker the question names, and one that the user said. */
  namedSpeaker: 1.5,
  userSpeaker: 1.3,
  /**
   * What a row counts, by its words and its vector, that is of the session which the request prefers: as much as who
   * spoke, so that a clearly better answer of another session stays before it. No set asks with a session.
   */
  preferredSession: 1.25,

  /** Rarity is counted as if so many short messages more were stored, in which words are as common as in English. */
  rowsPresumed: 100,
  /** Words of such a message: longer rows hold more of what is common. */
  messageWords: 120,

  /**
   * The share of the question that a row must hold for the question to be about anything here; less in questions of
   * more than so many words, more in rows of many paragraphs, as each is a chance.
   */
  gate: 0.299,
  gateTerms: 8,
  gateGrowth: 0.02,
  /** The share that every further hit must hold. */
  floor: 0.15,

  /** A store of short rows is small up to so many, and large from so many on. */
  smallRows: 50,
  largeRows: 500,
  /** How much faster what a word tells falls than its rarity does. */
  tellingPower: 2.5,
  /** What a word tells outside of topic and aliases. */
  plainTelling: 0.7,
  /** From so much on a word of the topic or an alias is evidence by itself. */
  namedTelling: 0.4,
  /** What the words of a hit must tell in a small store, and of what those of the best hit tell so much. */
  tellingMin: 0.35,
  dropOff: 0.5,
  /** The share from which a short question needs to tell no more. */
  bareCoverage: 0.5,

  /** Typing errors are looked for in stores of so many rows and characters, in words of so many letters. */
  typoRowsMax: 500,
  typoTextCharsMax: 128 * 1024,
  typoLettersMin: 5,

  /** What the nearest vector is worth beside the best by words. */
  vectorWeight: 0.5,
  /** So many vectors on, one is far: the cosine there is worth nothing. */
  farRank: 100,
  /** What a row gets of the nearness of those one and two places beside it in its session. */
  nearOne: 0.15,
  nearTwo: 0.1,
  /**
   * An embedder's floor is asked of the nearest cosine together with so much of what the words cover, beside what a
   * question of so many words can; less where it names what nothing here is called.
   */
  coverageWorth: 0.2,
  unknownName: 0.1,
  /** A question of many words is near to no single text: so much less is asked of it, as a power of the gate's part. */
  scalePower: 0.5,
  /** So far below an embedder's floor a vector still is near, where both together reach it. */
  wordsMargin: 0.08,
};
