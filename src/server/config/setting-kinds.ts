/**
 * What a variable's text may be: one small parser per kind, each with the words that say what it allows.
 *
 * Always true: `parse` answers undefined for whatever `allowed` does not describe, and never throws.
 */
import { createPrivateKey } from "node:crypto";
import { isUuid } from "../../format/core/binary.ts";
import type { StoreLocation } from "../../store/open-store.ts";

export const settingWordCharsMax = 1_024;

/** How one kind of variable is read. */
export interface Kind<Value> {
  /** Completes the sentence "NAME must be …". */
  readonly allowed: string;
  /** Whether the value must never be shown and has no command-line flag (a process list would show it). */
  readonly secret?: true;
  /** Whether the flag has no value, meaning `1`. */
  readonly toggle?: true;
  readonly parse: (text: string) => Value | undefined;
}

/** An address to listen on. */
export interface Endpoint {
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
}

const digits = /^[0-9]{1,16}$/;
const hostName = /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/;
const visible = /^[\x21-\x7e]+$/;
/** A prefix has the form of our keys, so that every store takes it and nothing of it needs quoting. */
const bucketUrl = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/((?:[A-Za-z0-9_-][A-Za-z0-9._-]*\/)*))?$/;

/** A whole number within bounds. */
export function integer(least: number, most: number): Kind<number> {
  return {
    allowed: `a whole number from ${least} to ${most}`,
    parse(text) {
      const value = Number(text);
      return digits.test(text) && value >= least && value <= most ? value : undefined;
    },
  };
}

/** One of a few words. */
export function oneOf<const Word extends string>(...words: readonly Word[]): Kind<Word> {
  return { allowed: words.join(" or "), parse: (text) => words.find((word) => word === text) };
}

/** `1` or `0`. */
export const toggle: Kind<boolean> = {
  allowed: "1 or 0",
  toggle: true,
  parse: (text) => (text === "1" ? true : text === "0" ? false : undefined),
};

/** `true` or `false`, as variables that are not ours write it. */
export const trueOrFalse: Kind<boolean> = {
  allowed: "true or false",
  parse: (text) => (text === "true" ? true : text === "false" ? false : undefined),
};

/** A path of this machine, taken as it is. */
export const path: Kind<string> = {
  allowed: "a path without NUL bytes",
  parse: (text) => (text.includes("\0") ? undefined : text),
};

/** A name for people and other systems: no spaces, nothing that could break a header or a log line. */
export const word: Kind<string> = {
  allowed: `1 to ${settingWordCharsMax} visible ASCII characters without spaces`,
  parse: (text) => (text.length <= settingWordCharsMax && visible.test(text) ? text : undefined),
};

/** A credential that fits an `Authorization` header. */
export const secret: Kind<string> = { ...word, secret: true };

/** A host name in lower case, as comparisons with the Host header want it. */
export const hostSuffix: Kind<string> = {
  allowed: "a host name of letters, digits, - and .",
  parse: (text) => (hostName.test(text) ? text.toLowerCase() : undefined),
};

/** Comma-separated words; spaces around them do not count. */
export const wordList: Kind<readonly string[]> = {
  allowed: "comma-separated words, none of them empty",
  parse(text) {
    const words = text.split(",").map((part) => part.trim());
    return words.every((part) => word.parse(part) !== undefined) ? words : undefined;
  },
};

/** Comma-separated whole numbers within bounds, a few of them. */
export function integerList(least: number, most: number, countMax: number): Kind<readonly number[]> {
  const one = integer(least, most);
  return {
    allowed: `1 to ${countMax} comma-separated whole numbers from ${least} to ${most}`,
    parse(text) {
      const numbers = text.split(",").map((part) => one.parse(part.trim()));
      return numbers.length <= countMax && numbers.every((number) => number !== undefined) ? numbers : undefined;
    },
  };
}

/** Databases by identity, or all of them. */
export const uuidsOrAll: Kind<readonly string[]> = {
  allowed: "all, or comma-separated lower-case UUIDs of databases",
  parse(text) {
    const words = wordList.parse(text);
    return words?.every((one) => one === "all" || isUuid(one)) ? words : undefined;
  },
};

/** `host:port`; an IPv6 address is in brackets. */
export const endpoint: Kind<Endpoint> = {
  allowed: "host:port, such as 127.0.0.1:8080 or [::1]:8080, with a port from 0 to 65535",
  parse(text) {
    const at = text.lastIndexOf(":");
    const bracketed = text.startsWith("[") && text[at - 1] === "]";
    const host = bracketed ? text.slice(1, at - 1) : text.slice(0, at);
    const port = integer(0, 65_535).parse(text.slice(at + 1));
    if (at < 0 || port === undefined) return undefined;
    const sound = bracketed ? URL.canParse(`http://[${host}]`) : hostName.test(host);
    return sound ? { host, port } : undefined;
  },
};

function webAddress(text: string): URL | undefined {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") return undefined;
  return url.search === "" && url.hash === "" ? url : undefined;
}

/** The origin of another server: scheme, host and port. */
export const origin: Kind<string> = {
  allowed: "an http:// or https:// address without path, query or credentials",
  parse(text) {
    const url = webAddress(text);
    return url?.pathname === "/" ? url.origin : undefined;
  },
};

/** A base address under which paths are appended; no slash at its end. */
export const baseAddress: Kind<string> = {
  allowed: "an http:// or https:// address without query or credentials",
  parse: (text) => webAddress(text)?.href.replace(/\/+$/, ""),
};

/** Comma-separated origins of pages, as browsers write them, or `*` for all. */
export const originList: Kind<readonly string[]> = {
  allowed: "*, or comma-separated origins such as http://localhost:3000",
  parse(text) {
    const origins = text.split(",").map((part) => (part.trim() === "*" ? "*" : origin.parse(part.trim())));
    return origins.every((one) => one !== undefined) ? origins : undefined;
  },
};

/** An object store's URL; what standard variables tell an S3 client is still missing. */
export const storeUrl: Kind<StoreLocation> = {
  allowed: "file://path, s3://bucket or s3://bucket/prefix, or mem://",
  parse(text) {
    if (text === "mem://") return { kind: "memory" };
    const [, bucket, prefix = ""] = bucketUrl.exec(text.endsWith("/") ? text : `${text}/`) ?? [];
    if (bucket !== undefined) return { kind: "s3", bucket, prefix: prefix.slice(0, -1), plainHttp: false };
    const directory = text.startsWith("file://") ? path.parse(text.slice("file://".length)) : undefined;
    return directory ? { kind: "file", directory } : undefined;
  },
};

/** An Ed25519 private key. */
export const signingKey: Kind<string> = {
  allowed: "the base64 of an Ed25519 private key in PKCS#8 form",
  secret: true,
  parse(text) {
    try {
      const key = createPrivateKey({ key: Buffer.from(text, "base64"), format: "der", type: "pkcs8" });
      return key.asymmetricKeyType === "ed25519" ? text : undefined;
    } catch {
      return undefined;
    }
  },
};
