/**
 * Which endpoint a method and a path mean, at the service's own address and at a database's.
 *
 * Always true:
 * - a segment is percent-decoded once, after the path was split, so an encoded slash is part of a name
 * - an empty segment (a trailing or double slash) is no route
 * - what matches without its method is 405 with the methods that exist
 *
 * A place in a path is either literals or one field, never both, so no search has to go back.
 */
import type { DescField, Message } from "@bufbuild/protobuf";
import { assert } from "../../base/faults/assert.ts";
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import type { AnyEndpoint, PathSegment } from "../../service/call/methods.ts";
import { compileParameter, printableName, type ReadParameter } from "../wire/json-scalars.ts";

/** The endpoint that a request means, and the texts of its path's fields in order. */
export interface Match<Route> {
  readonly route: Route;
  readonly values: readonly string[];
}

interface Place<Route> {
  readonly literals: Map<string, Place<Route>>;
  field: Place<Route> | undefined;
  readonly routes: Map<string, Route>;
}

/** Finds routes by path, then by method. */
export class Router<Route> {
  readonly #root: Place<Route> = emptyPlace();

  add(method: string, segments: readonly PathSegment[], route: Route): void {
    let place = this.#root;
    for (const segment of segments)
      place = segment.kind === "literal" ? getChild(place, segment.text) : (place.field ??= emptyPlace());
    assert(!place.routes.has(method), "no two routes share a method and a path");
    place.routes.set(method, route);
  }

  /** Checks what `match` relies on; called once after the last `add`. */
  seal(): this {
    const check = (place: Place<Route>): void => {
      assert(place.literals.size === 0 || place.field === undefined, "a place in a path is literals or a field");
      for (const next of place.literals.values()) check(next);
      if (place.field) check(place.field);
    };
    check(this.#root);
    return this;
  }

  /**
   * @param path The path as received, without its query.
   * @throws ServiceError `not_found`; `invalid_request` with 405 and `Allow`; `invalid_request` for malformed escapes.
   */
  match(method: string, path: string): Match<Route> {
    const values: string[] = [];
    let place: Place<Route> | undefined = path.startsWith("/") ? this.#root : undefined;
    for (let start = 1; place !== undefined && start <= path.length;) {
      const slash = path.indexOf("/", start);
      const end = slash < 0 ? path.length : slash;
      const segment = decodeOnce(path.slice(start, end), "the path");
      if (segment === "") place = undefined;
      else if (place.field !== undefined) {
        values.push(segment);
        place = place.field;
      } else place = place.literals.get(segment);
      start = end + 1;
      // A slash at the very end opens one more segment, which is empty.
      if (slash === path.length - 1) place = undefined;
    }
    if (place === undefined || place.routes.size === 0)
      throw new ServiceError("not_found", `no such route${this.#hintFor(path)}`);
    const route = place.routes.get(method);
    if (route !== undefined) return { route, values };
    throw methodNotAllowed([...place.routes.keys()]);
  }

  /** What may have been meant by a path that is no route. */
  #hintFor(path: string): string {
    if (path === "/")
      return ": this is the service's own address, and its routes begin with /v1; /openapi.json lists them";
    if (path.endsWith("/")) return ": a path has no / at its end";
    if (path.includes("//")) return ": a part of the path is empty";
    return this.#passesName(path.slice(1).split("/"))
      ? ": a / within a name is written %2F"
      : "; /openapi.json lists those that there are";
  }

  /** Whether the path goes on where a name ends a route. */
  #passesName(segments: readonly string[]): boolean {
    let place: Place<Route> | undefined = this.#root;
    for (const segment of segments) {
      const isName: boolean = place.field !== undefined;
      place = place.field ?? place.literals.get(segment);
      if (place === undefined) return false;
      if (isName && place.routes.size > 0) return true;
    }
    return false;
  }
}

/** The refusal of a method that a path does not have. */
export function methodNotAllowed(allowed: readonly string[]): ServiceError {
  const Allow = allowed.toSorted().join(", ");
  return new ServiceError("invalid_request", `this path takes ${Allow}`, { httpStatus: 405, headers: { Allow } });
}

function emptyPlace<Route>(): Place<Route> {
  return { literals: new Map(), field: undefined, routes: new Map() };
}

function getChild<Route>(place: Place<Route>, text: string): Place<Route> {
  let child = place.literals.get(text);
  if (child === undefined) {
    child = emptyPlace();
    place.literals.set(text, child);
  }
  return child;
}

function decodeOnce(text: string, where: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalid(`${where} holds a malformed percent-escape, or one that is not UTF-8`);
  }
}

/** The query parameter that is the header `Service-At`, of endpoints that take it. */
export const atParameter = "at";

/** Reads the parameters of one endpoint's query string. */
export class QueryReader {
  readonly #readers: ReadonlyMap<string, ReadParameter>;
  readonly #names: string;

  constructor({ queryFields, rule }: Pick<AnyEndpoint, "queryFields" | "rule">) {
    const fields = queryFields.map((field: DescField) => [field.name, compileParameter(field)] as const);
    assert(!rule.at || fields.every(([name]) => name !== atParameter), "the state that is read is in no message");
    // Read before, as the header is.
    this.#readers = new Map([...fields, ...(rule.at ? [[atParameter, () => {}] as const] : [])]);
    this.#names = [...this.#readers.keys()].join(", ") || "none";
  }

  /**
   * @param query What follows the question mark.
   * @throws ServiceError `invalid_request` that names the parameter: unknown, given twice, of the wrong type.
   */
  read(message: Message, query: string): void {
    const seen = new Map<string, string>();
    for (const pair of query.split("&")) {
      if (pair === "") continue;
      const equals = pair.indexOf("=");
      const name = decodeParameter(equals < 0 ? pair : pair.slice(0, equals));
      const value = decodeParameter(equals < 0 ? "" : pair.slice(equals + 1));
      const reader = this.#readers.get(name);
      if (reader === undefined)
        throw invalid(`${printableName(name)} is not a query parameter of this route; allowed here: ${this.#names}`);
      if (seen.has(name) && seen.get(name) !== value) throw invalid(`${name} is given twice with different values`);
      seen.set(name, value);
      reader(message, value);
    }
  }
}

/** The state that the query asks for; undefined where it asks for none. Throws for a malformed escape. */
export function readAtParameter(query: string): string | undefined {
  for (const pair of query.split("&")) {
    const [name, value] = splitOnce(pair, "=");
    if (decodeParameter(name) === atParameter) return decodeParameter(value ?? "");
  }
  return undefined;
}

function decodeParameter(text: string): string {
  return decodeOnce(text.includes("+") ? text.replaceAll("+", " ") : text, "the query");
}

/**
 * The database that a Host header names, `name` or `name@branch`, when it is `{name}.{suffix}`; undefined for every
 * other host. Hosts are case-insensitive; a branch is not, so it is taken as written. No `name` here is proven valid.
 */
export function parseHostDatabase(host: string | undefined, suffix: string): string | undefined {
  if (host === undefined) return undefined;
  // An IPv6 address has colons inside its brackets, and is no database.
  const name = host.replace(/:\d*$/, "").replace(/\.$/, "");
  const start = name.length - suffix.length - 1;
  if (start < 1 || name[start] !== "." || name.slice(start + 1).toLowerCase() !== suffix.toLowerCase())
    return undefined;
  const [database, branch] = splitOnce(name.slice(0, start), "@");
  if (database === "" || database.includes(".")) return undefined;
  return branch === undefined ? database.toLowerCase() : `${database.toLowerCase()}@${branch}`;
}

function splitOnce(text: string, separator: string): readonly [string, string | undefined] {
  const index = text.indexOf(separator);
  return index < 0 ? [text, undefined] : [text.slice(0, index), text.slice(index + 1)];
}
