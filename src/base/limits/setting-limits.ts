/**
 * Defaults and outer bounds of the variables of a node that have no other home (server/config/config); part of
 * `limits`.
 */

const KiB = 1024;
const MiB = 1024 * KiB;

export const settingLimits = {
  controlRateDefault: 10,
  gcGraceSecsDefault: 600,
  policyCacheSecsDefault: 30,
  auditFlushMsDefault: 2_000,
  pitrSecsDefault: 86_400,
  /** How far `standard` acknowledgements may run ahead of object storage. */
  unshippedSecsDefault: 300,
  unshippedBytesDefault: 256 * MiB,
  readerThreadsDefault: 2,
  threadsMax: 256,
  /** A body is parsed as one string, and the longest string of the runtime is just under 512 MiB. */
  dataBodyBytesMax: 256 * MiB,
  /** Caps and rates beyond this are no caps. */
  settingCountMax: 1_000_000,
  settingSecsMax: 10 * 365 * 86_400,
  /** A day: every shorter budget also fits a timer, which ends at 2^31 ms. */
  settingTimerSecsMax: 86_400,
  settingTextCharsMax: 4_096,
  settingWordCharsMax: 1_024,
  /** A shorter platform key is warned of: 16 random characters of base64 are 96 bits. */
  platformKeyCharsWise: 16,
  settingBytesMax: Number.MAX_SAFE_INTEGER,
  /** The least duration a policy may set, and so the least ceiling above it. */
  policySecsMin: 60,
} as const;
