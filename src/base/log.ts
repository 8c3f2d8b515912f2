/**
 * Structured logs. Fields are metadata only: no memory content, no SQL text, no credential ever goes in.
 */
import { pino } from "pino";

export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Log {
  /** Absent where nothing so small is logged, so that no fields are gathered for nothing. */
  readonly debug?: ((message: string, fields?: LogFields) => void) | undefined;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  /** `error` gives only its name, message and stack. */
  error(message: string, error: unknown, fields?: LogFields): void;
}

/** JSON lines on standard error. */
export function jsonLog(level: string, destination: NodeJS.WritableStream): Log {
  const logger = pino({ level, base: null }, destination);
  return {
    debug: logger.isLevelEnabled("debug") ? (message, fields) => logger.debug(fields ?? {}, message) : undefined,
    info: (message, fields) => logger.info(fields ?? {}, message),
    warn: (message, fields) => logger.warn(fields ?? {}, message),
    error: (message, error, fields) => logger.error({ ...fields, err: error }, message),
  };
}

/** Says nothing; for tests that do not look at logs. */
export const silentLog: Log = { info() {}, warn() {}, error() {} };
