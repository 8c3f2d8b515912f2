/**
 * The messages in an answer of HTTP: one as JSON, or several as server-sent events.
 *
 * Always true: an event is given as soon as it is whole. Must not know: what a message says.
 */

/**
 * @param {Response} response
 * @returns {AsyncGenerator<unknown>}
 */
export async function* readMessages(response) {
  const type = response.headers.get("content-type") ?? "";
  if (!type.startsWith("text/event-stream")) {
    const text = await response.text();
    if (text !== "") yield JSON.parse(text);
    return;
  }
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = text
        .slice(0, end)
        .split("\n")
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5).trimStart())
        .join("\n");
      text = text.slice(end + 2);
      if (data !== "") yield JSON.parse(data);
    }
  }
}
