/** Memories, vectors and questions that every peer is given alike, made before the clock runs. */
import { seeded } from "../../support/random.ts";
import { texts } from "../words.ts";
import type { Memory, Question } from "./peer.ts";

const sentencesCount = 4_096;
const vectorsCount = 1_024;
/** One memory in so many is a fact on one of a few topics, which supersedes the fact that it had. */
const factEvery = 10;
const topics = 50;
/** One in so many repeats the one before it. */
const repeatEvery = 50;

const source = texts(1);
const sentences = Array.from({ length: sentencesCount }, () => source.sentence(12));

export function sentenceAt(index: number): string {
  return sentences[index % sentencesCount]!;
}

/** The memory that a client gives at a step; the tag tells runs from each other. */
export function memoryAt(tag: string, client: number, step: number, embedding?: readonly number[]): Memory {
  const at = step % repeatEvery === repeatEvery - 1 ? step - 1 : step;
  const text = sentenceAt(client * 61 + at);
  const own = `${tag}-${client}-${at}`;
  const fact = at % factEvery === 0 ? { type: "fact", topic_key: `topic ${(client * 7 + at) % topics}` } : undefined;
  return {
    ...(fact ?? { type: "event" }),
    summary: `${text} ${own}`,
    content: { text, tag: own },
    ...(embedding && { embedding }),
  };
}

/** An event that no other equals: what is imported in bulk. */
export function eventAt(tag: string, index: number, embedding?: readonly number[]): Memory {
  const text = sentenceAt(index);
  const own = `${tag}-${index}`;
  return { type: "event", summary: `${text} ${own}`, content: { text, tag: own }, ...(embedding && { embedding }) };
}

/** Some vectors that are used in turn. */
export function vectorPool(dimension: number, count = vectorsCount): readonly (readonly number[])[] {
  const from = texts(dimension);
  return Array.from({ length: count }, () => from.vector(dimension));
}

export interface AskedMemory extends Question {
  /** Tag of the memory that the question is made from. */
  readonly wanted: string;
}

/** A few words of each memory, and its vector with a third of noise. */
export function questionsAbout(memories: readonly Memory[], count: number): readonly AskedMemory[] {
  const random = seeded(7);
  return Array.from({ length: count }, () => {
    const { content, embedding } = memories[Math.floor(random() * memories.length)]!;
    const words = content.text.split(" ");
    const noise = 1 / 3 / Math.sqrt(embedding!.length / 12);
    return {
      words: Array.from({ length: 4 }, () => words[Math.floor(random() * words.length)]!),
      embedding: embedding!.map((value) => value + (random() - 0.5) * noise),
      wanted: content.tag,
    };
  });
}
