/** Text and vectors that look like memories, from a seed: a Zipf-like vocabulary and clustered unit vectors. */
import { seeded } from "../support/random.ts";

const syllables = [
  "ba",
  "co",
  "de",
  "fi",
  "gu",
  "ha",
  "jo",
  "ki",
  "lu",
  "me",
  "no",
  "pa",
  "ri",
  "so",
  "tu",
  "va",
  "we",
  "xi",
  "yo",
  "za",
];

export interface Texts {
  sentence(words: number): string;
  vector(dimension: number): number[];
}

export function texts(seed: number): Texts {
  const random = seeded(seed);
  const word = (): string => {
    // The rank follows a power law, as words do.
    let rank = Math.floor(20_000 ** random());
    let text = "";
    do {
      text += syllables[rank % syllables.length];
      rank = Math.floor(rank / syllables.length);
    } while (rank > 0);
    return text + syllables[text.length % syllables.length];
  };
  return {
    sentence: (words) => Array.from({ length: words }, word).join(" "),
    vector(dimension) {
      const cluster = Math.floor(random() * 50);
      const values = Array.from(
        { length: dimension },
        (_, index) => Math.sin(cluster * 7.3 + index) + (random() - 0.5),
      );
      const length = Math.hypot(...values);
      return values.map((value) => value / length);
    },
  };
}
