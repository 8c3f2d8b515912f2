/** Bounds of what comes over the wires before it is known what it means (server/). */

const KiB = 1024;
const MiB = 1024 * KiB;

export const wireLimits = {
  controlBodyBytesMax: 1 * MiB,
  dataBodyBytesDefault: 32 * MiB,
  /** A connection that has not said which protocol it speaks is closed after this. */
  preambleTimeoutMs: 5_000,
  headerBytesMax: 32 * KiB,
  /** All request bodies that are being read and decoded, on all wires together, inflated; more are shed. */
  bodiesBytesMax: 1024 * MiB,
  /** How much of a refused body is read and thrown away before its connection is cut, and for how long. */
  discardedBytesMax: 64 * MiB,
  discardMs: 5_000,
  /** From so many of them a chunk of up to 64 KiB is read in so many milliseconds: 25 MiB in a second. */
  discardsPerTick: 4,
  discardTickMs: 10,
  /**
   * JSON shrinks by 10 to 50 times, repeated text by 200 times; gzip could do 1,000. Up to the first size nobody asks.
   */
  inflatedTimesMax: 256,
  inflatedFreeBytes: 1 * MiB,
  /** What one step of inflating makes at most, before it is counted. */
  inflateChunkBytes: 256 * KiB,
  /** Messages of the services that anybody may ask, such as health: they hold a name. */
  openMessageBytesMax: 4 * KiB,
  /** A request's headers must have come by then; an HTTP/2 connection must have begun a request by then. */
  headersTimeoutMs: 15_000,
  /** A request's body must have come by then: the largest body over a slow line. */
  requestReceiveMs: 120_000,
  /** A connection without a request is closed after this; longer than common load balancers keep theirs. */
  idleConnectionMs: 75_000,
  /** Open connections of one port, where the system gives descriptors for so many. */
  connectionsMax: 16_384,
  /** Connections from one address, as a share of them all: one stranger cannot take every place. */
  connectionsShareMax: 0.75,
  /** How often it is said that connections are dropped. */
  connectionsToldMs: 10_000,
  http2StreamsMax: 256,
  http2WindowBytes: 1 * MiB,
  http2SessionMemoryMiB: 64,

  // Decoding: it happens on the thread that serves everybody, so it is done in pieces of some milliseconds
  /** Bodies of up to this size are decoded at once: 3 ms of whatever they hold. */
  decodedAtOnceBytes: 48 * KiB,
  /**
   * Arrays and objects within each other, where any JSON may be 64 levels deep and stands some levels below the body.
   */
  nestedMax: 80,
  /** Names of members beyond this are no field's. */
  memberNameBytesMax: 1 * KiB,
  /** Larger ones are looked through this much at a time. */
  scanBytes: 512 * KiB,
  /** And decoded in pieces of about so many bytes and so much work, unless a single element has more. */
  pieceBytes: 256 * KiB,
  pieceWork: 200_000,
  /** One element, such as a memory, a document or a statement. In work: 300,000 arrays or 100,000 fields, 30 ms. */
  elementBytesMax: 8 * MiB,
  elementWorkMax: 1_600_000,
  /** A body as a whole: beyond it, it is sent in parts. A second or two of work, in pieces. */
  bodyWorkMax: 32_000_000,
  /** Elements of one list of a request; what a method takes is less. */
  listElementsMax: 10_000,
  /** Values of a text that is read for every digit, which takes ten times as long: 30 ms. */
  exactValuesMax: 50_000,
  /** Answers with more JSON than this are made ready piece by piece where it becomes messages. */
  encodedAtOnceChars: 32 * KiB,
  /** Values of any JSON in one such answer: 10,000 rows of 19 columns, 200 ms to encode. */
  encodedValuesMax: 200_000,
  /** Memories of one ingest are checked so much at a time. */
  checkedAtOnceBytes: 64 * KiB,

  // Calls, whatever their wire (service/pipeline/admission, service/pipeline/pipeline), and the way out
  concurrencyDefault: 1024,
  /** Callers whose control rate is remembered. */
  rateBucketsMax: 10_000,
  requestTimeoutSecsDefault: 30,
  retryAfterSecsMin: 1,
  /** How often a health watch looks whether the answer has changed. */
  healthWatchMs: 1_000,
  drainMs: 10_000,
} as const;
