/**
 * Text of others on a terminal.
 *
 * Always true: what comes out neither steers a terminal nor turns its writing round, and can be told from what else it
 * could have been.
 */

/** Text without characters that steer a terminal or turn its writing round. */
export function safeText(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}"\\]/gu,
    (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`,
  );
}
