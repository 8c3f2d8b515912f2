/**
 * Examples of requests, for the OpenAPI document.
 *
 * Always true: bodies stand in the proto files, beside the methods; here are the names in paths that go with them. Must
 * not know: how an operation is described otherwise.
 */
import type { DescField } from "@bufbuild/protobuf";
import type { AnyEndpoint } from "../../service/call/methods.ts";

/** By the name of a field in a path. */
const inPath: Readonly<Record<string, string>> = {
  db: "acme--alice",
  ns: "acme",
  profile: "alice",
  branch: "draft",
  name: "before-the-trip",
  jti: "01HF7YAT00000000000000000J",
  session: "monday",
  sid: "monday",
  key: "theme",
  coll: "trips",
  path: "notes/tokyo.md",
};

/** By the services whose ids look alike. */
const ids: Readonly<Record<string, string>> = {
  WebhookService: "whk_01HF7YAT00000000000000000J",
  MemoryService: "mem_01HF7YAT00000000000000000J",
  DataService: "tokyo",
};

/** An example of a field in the path, as a member of the parameter. */
export function pathExample(field: DescField, { method }: AnyEndpoint): { readonly example?: string } {
  const example = field.name === "id" ? ids[method.parent.name] : inPath[field.name];
  return example === undefined ? {} : { example };
}

/** An example of the body, as a member of its media type. */
export function bodyExample({ rule }: AnyEndpoint): { readonly example?: unknown } {
  return rule.example === "" ? {} : { example: JSON.parse(rule.example) as unknown };
}
