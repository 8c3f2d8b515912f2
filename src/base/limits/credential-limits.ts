/** Bounds of tokens and of the keys that sign them (control/); part of `limits`. */

const KiB = 1024;

export const credentialLimits = {
  /** A token of ours takes about 350 characters. */
  tokenBytesMax: 4 * KiB,
  tokenSecsDefault: 3_600,
  tokenSecsMax: 30 * 86_400,
  /** How far the clocks of nodes may differ without a token being taken for expired or not yet good. */
  tokenLeewayMs: 5_000,
  /** Signing keys of before whose tokens are still taken; of more, the newest. */
  retiredKeysMax: 16,
  /** Verified tokens that a node remembers until they expire; any other is verified again. */
  tokensRememberedMax: 10_000,
  /** A credential in logs and audit: 64 bits tell credentials apart and give none away. */
  credentialHashDigits: 16,
  /** A namespace token must be younger than a deletion by this to write to what came after it. */
  revocationSkewMs: 2_000,
  /** Other keys than the one in use are looked up at most this often: anybody may ask. */
  keySetCacheMs: 60_000,
  keySetKeysMax: 100,
} as const;
