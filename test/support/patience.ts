/** Finds out from outside that something under test is busy now. */

/**
 * Longer than any call of an idle node takes, even on a busy machine; shorter than what keeps a node busy in the tests.
 */
const patienceMs = 100;

/** Calls again and again until an answer does not come at once, and gives the answer that is still to come. */
export async function untilUnanswered<T>(call: () => Promise<T>): Promise<{ readonly answer: Promise<T> }> {
  for (;;) {
    const answer = call();
    const isAnswered = await Promise.race([
      answer.then(() => true),
      new Promise<false>((resolve) => setTimeout(() => resolve(false), patienceMs)),
    ]);
    if (!isAnswered) return { answer };
  }
}
