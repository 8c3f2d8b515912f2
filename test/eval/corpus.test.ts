/** The evaluation reads the published forms, and measures what it says. Texts are made up. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../support/temporary.ts";
import { readCorpus } from "./corpus.ts";
import { intervals, measure } from "./measures.ts";

const locomo = {
  speaker_a: "Ann",
  session_2: [{ speaker: "Bo", dia_id: "D2:1", text: "Look", blip_caption: "a red kite" }],
  session_2_date_time: "2 May",
  session_1: [
    { speaker: "Ann", dia_id: "D1:1", text: "Hello" },
    { speaker: "Bo", dia_id: "D1:2", text: "Hi" },
  ],
  session_1_date_time: "1 May",
  session_1_observation: {},
  qa: [
    { question: "Who says hello?", evidence: ["D1:1; D2:1", "D9:9"], category: 1 },
    { question: "Who flies?", evidence: ["D1:2"], category: 5 },
  ],
};

test("LoCoMo: sessions in their order, evidence that is there, in a file or a folder", () => {
  const directory = join(temporaryDirectory(), "set");
  mkdirSync(directory);
  writeFileSync(join(directory, "1.json"), JSON.stringify(locomo));
  writeFileSync(join(directory, "2.json"), JSON.stringify({ conversation: locomo, qa: locomo.qa }));
  const { kind, sha256, conversations } = readCorpus(directory);
  expect([kind, sha256.length, conversations.length]).toEqual(["locomo", 64, 2]);
  expect(conversations[0]!.sessions.map(({ id, date, turns }) => [id, date, turns.map(({ text }) => text)])).toEqual([
    ["D1", "1 May", ["Hello", "Hi"]],
    ["D2", "2 May", ["Look [shares a red kite]"]],
  ]);
  for (const { questions } of conversations) {
    expect(questions).toEqual([
      {
        text: "Who says hello?",
        category: "multi-hop",
        turns: [["D1:1"], ["D2:1"]],
        sessions: [["D1"], ["D2"]],
        isAnswerable: true,
      },
      { text: "Who flies?", category: "adversarial", turns: [["D1:2"]], sessions: [["D1"]], isAnswerable: false },
    ]);
  }
  expect(readCorpus(join(directory, "1.json")).sha256).not.toBe(sha256);
});

test("BEAM: batches are sessions, and any turn of a group holds its piece", () => {
  const path = join(temporaryDirectory(), "set.json");
  const turn = { role: "user", content: "hello", time: null };
  const turns = [
    { ...turn, id: 0, batch: "1" },
    { ...turn, id: 1, batch: "2" },
    { ...turn, id: 2, batch: "2" },
  ];
  const questions = [
    { ability: "summarization", question: "What?", gold: [[1, 2], [0]] },
    { ability: "abstention", question: "Who?", gold: [] },
  ];
  writeFileSync(path, JSON.stringify({ id: "one", turns, questions }));
  const { kind, conversations } = readCorpus(path);
  expect([kind, conversations[0]!.sessions.map(({ id, turns: said }) => [id, said.length])]).toEqual([
    "beam",
    [
      ["1", 1],
      ["2", 2],
    ],
  ]);
  expect(conversations[0]!.questions).toEqual([
    {
      text: "What?",
      category: "summarization",
      turns: [["1", "2"], ["0"]],
      sessions: [["2"], ["1"]],
      isAnswerable: true,
    },
    { text: "Who?", category: "abstention", turns: [], sessions: [], isAnswerable: false },
  ]);
});

test("LongMemEval: each question has its own sessions", () => {
  const entry = {
    question_id: "x_abs",
    question_type: "single-session-user",
    question: "Where?",
    haystack_dates: ["2023/05/01", "2023/05/02"],
    haystack_session_ids: ["s1", "s2"],
    haystack_sessions: [
      [{ role: "user", content: "hello" }],
      [
        { role: "user", content: "in Rome", has_answer: true },
        { role: "assistant", content: "noted" },
      ],
    ],
    answer_session_ids: ["s2"],
  };
  const path = join(temporaryDirectory(), "set.json");
  writeFileSync(path, JSON.stringify([entry, { ...entry, question_id: "y" }]));
  const { kind, conversations } = readCorpus(path);
  expect([kind, conversations.length]).toEqual(["longmemeval", 2]);
  expect(conversations[0]!.questions).toEqual([
    { text: "Where?", category: "single-session-user", turns: [["s2:0"]], sessions: [["s2"]], isAnswerable: false },
  ]);
  expect(conversations[1]!.questions[0]!.isAnswerable).toBe(true);
  expect(conversations[1]!.sessions[1]!.turns[0]).toEqual({ id: "s2:0", speaker: "user", text: "in Rome" });
  writeFileSync(path, JSON.stringify([{ other: 1 }]));
  expect(() => readCorpus(path)).toThrow(/neither/);
});

test("any, all, fraction and the reciprocal rank, which looks beyond k", () => {
  const answers = [
    { category: "a", found: ["1", "2", "3"], evidence: [["2"], ["3"]] },
    { category: "a", found: ["1", "2", "3"], evidence: [["3"]] },
    { category: "a", found: [], evidence: [["3"]] },
    { category: "a", found: ["1", "2"], evidence: [["1"], ["2", "9"]] },
  ];
  expect(measure(answers, 2)).toEqual({
    questions: 4,
    any: 0.5,
    all: 0.25,
    fraction: 0.375,
    mrr: (1 / 2 + 1 / 3 + 0 + 1) / 4,
    empty: 0.25,
  });
  const { own, gain } = intervals(answers, answers, 2, "any");
  expect(own[0]).toBeLessThan(own[1]);
  expect(gain).toEqual([0, 0]);
});
