/**
 * The generated part of the Python client: what calls take (TypedDicts), what they give (dataclasses), the table of
 * operations, and the synchronous twin of the asynchronous modules.
 *
 * Names are the wire's, which are Python's too; a keyword of Python has an underscore behind it (`from_`).
 */
import type { Description, Field, Form, Named, Operation } from "./description.ts";

const note = "# Generated from the OpenAPI document by `npm run generate`; do not edit.";
const keywords = new Set([
  "from",
  "in",
  "is",
  "not",
  "and",
  "or",
  "class",
  "def",
  "global",
  "pass",
  "with",
  "as",
  "import",
]);

function toName(name: string): string {
  return keywords.has(name) ? `${name}_` : name;
}

/** `_types.py`. */
export function pythonTypes({ named, operations }: Description): string {
  const byName = new Map(named.map((object) => [object.name, object]));
  const taken = closure(operations, ({ input }) => input, byName);
  const given = closure(operations, ({ output }) => output, byName);
  const requests = named
    .filter(({ name }) => taken.has(name))
    .map((object) => requestSource(toInputName(object.name, given), object, taken, given));
  const queries = operations
    .filter(({ query }) => query.length > 0)
    .map((operation) => {
      const about = `The query of ${operation.method} ${operation.path}.`;
      return requestSource(queryName(operation), { name: "", about, fields: operation.query }, taken, given);
    });
  const answers = named.filter(({ name }) => given.has(name)).map(answerSource);
  return [
    note,
    '"""What calls take and give, as the interface says it."""',
    "from __future__ import annotations",
    "",
    "from dataclasses import dataclass",
    "from typing import Any, Mapping, Sequence",
    "",
    "from typing_extensions import Required, TypedDict",
    "",
    "Json = Any",
    '"""Any JSON: None, bool, int, float, str, a list or a dict."""',
    ...[...requests, ...queries, ...answers].map((source) => `\n\n${source}`),
    "",
    "",
    "CLASSES: Mapping[str, type[Any]] = {",
    ...named.filter(({ name }) => given.has(name)).map(({ name }) => `    "${name}": ${name},`),
    "}",
    "",
  ].join("\n");
}

function toInputName(name: string, given: ReadonlySet<string>): string {
  return given.has(name) ? `${name}Dict` : name;
}

function queryName({ id }: Operation): string {
  return `${id[0]!.toUpperCase()}${id.slice(1)}Query`;
}

/** All objects that those of the operations hold. */
function closure(
  operations: readonly Operation[],
  root: (operation: Operation) => string | undefined,
  byName: ReadonlyMap<string, Named>,
): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (name: string | undefined): void => {
    const object = name === undefined ? undefined : byName.get(name);
    if (object === undefined || found.has(object.name)) return;
    found.add(object.name);
    for (const { form } of object.fields) for (const inner of namesIn(form)) visit(inner);
  };
  for (const operation of operations) visit(root(operation));
  return found;
}

function namesIn(form: Form): readonly string[] {
  switch (form.kind) {
    case "named":
      return [form.name];
    case "list":
    case "map":
      return namesIn(form.of);
    case "either":
      return form.of.flatMap(namesIn);
    default:
      return [];
  }
}

function requestSource(
  name: string,
  { about, fields }: Named,
  taken: ReadonlySet<string>,
  given: ReadonlySet<string>,
): string {
  const typed = (form: Form): string =>
    typeSource(form, (inner) => (taken.has(inner) ? toInputName(inner, given) : inner));
  const rows = fields.map(({ name: field, form, isRequired, about: words }) => {
    const type = isRequired ? `Required[${typed(form)}]` : typed(form);
    return `    ${toName(field)}: ${type}\n    ${doc(words)}`;
  });
  return [`class ${name}(TypedDict, total=False):`, `    ${doc(about)}`, ...rows].join("\n");
}

function answerSource({ name, about, fields }: Named): string {
  const ordered = [...fields.filter(({ isRequired }) => isRequired), ...fields.filter(({ isRequired }) => !isRequired)];
  return [
    "@dataclass(frozen=True, slots=True, kw_only=True)",
    `class ${name}:`,
    `    ${doc(about)}`,
    ...ordered.map(answerField),
  ].join("\n");
}

function answerField({ name, form, isRequired, about }: Field): string {
  const type = typeSource(form, (inner) => inner);
  const whole = isRequired || type.split(" | ").includes("None") || type === "Json" ? type : `${type} | None`;
  return `    ${toName(name)}: ${whole}${isRequired ? "" : " = None"}\n    ${doc(about)}`;
}

function doc(text: string): string {
  const safe = text.replaceAll("\\", "\\\\").replaceAll('"', "'").replaceAll(/\s+/g, " ");
  return `"""${safe}"""`;
}

function typeSource(form: Form, nameOf: (name: string) => string): string {
  switch (form.kind) {
    case "any":
      return "Json";
    case "object":
      return "Mapping[str, Json]";
    case "string":
      return "str";
    case "integer":
      return "int";
    case "number":
      return "float";
    case "boolean":
      return "bool";
    case "null":
      return "None";
    case "list":
      return `Sequence[${typeSource(form.of, nameOf)}]`;
    case "map":
      return `Mapping[str, ${typeSource(form.of, nameOf)}]`;
    case "named":
      return nameOf(form.name);
    default:
      return [...new Set(form.of.map((one) => typeSource(one, nameOf)))].join(" | ");
  }
}

/** `_operations.py`. */
export function pythonOperations({ operations, errorCodes }: Description, shapes: object): string {
  const rows = operations.map((operation) => {
    const { id, method, path, body, answer, input, output, tellsTxid, reads, takesKey, isIdempotent } = operation;
    const parts = [
      JSON.stringify(id),
      JSON.stringify(method),
      JSON.stringify(path),
      `query=(${operation.query.map(({ name }) => `${JSON.stringify(name)},`).join(" ")})`,
      `body=${JSON.stringify(body)}`,
      `answer=${JSON.stringify(answer)}`,
      ...(input === undefined ? [] : [`input=${JSON.stringify(input)}`]),
      ...(output === undefined ? [] : [`output=${JSON.stringify(output)}`]),
      ...(tellsTxid ? ["tells_txid=True"] : []),
      ...(reads || method === "GET" ? ["reads=True"] : []),
      ...(takesKey ? ["takes_key=True"] : []),
      ...(isIdempotent ? ["is_idempotent=True"] : []),
    ];
    return `${toConstant(id)} = Operation(${parts.join(", ")})`;
  });
  return [
    note,
    '"""Every operation of the interface."""',
    "from __future__ import annotations",
    "",
    "from typing import Mapping",
    "",
    "from ._operation import Operation",
    "",
    ...rows,
    "",
    `ERROR_CODES: tuple[str, ...] = (${errorCodes.map((code) => JSON.stringify(code)).join(", ")})`,
    "",
    "# Of each object, the fields whose values are objects with a name, alone, listed or (*) mapped.",
    `SHAPES: Mapping[str, Mapping[str, str]] = ${JSON.stringify(shapes)}`,
    "",
  ].join("\n");
}

function toConstant(id: string): string {
  return id.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

/** The synchronous twin of an asynchronous module: the same lines without `async` and `await`. */
export function toSynchronous(source: string): string {
  const replaced = [
    [/\basync (def|for|with) /g, "$1 "],
    [/\bawait /g, ""],
    [/\b__aenter__\b/g, "__enter__"],
    [/\b__aexit__\b/g, "__exit__"],
    [/\b__aiter__\b/g, "__iter__"],
    [/\baclose\b/g, "close"],
    [/\baread\b/g, "read"],
    [/\baiter_/g, "iter_"],
    [/\bAsyncIterator\b/g, "Iterator"],
    [/\bAsyncGenerator\[([\w.]+), None\]/g, "Generator[$1, None, None]"],
    [/\bAsyncGenerator\b/g, "Generator"],
    [/\bAwaitable\[(\w+)\]/g, "$1"],
    [/\bAsync(\w+)/g, "$1"],
  ] as const;
  const text = replaced.reduce((before, [pattern, by]) => before.replaceAll(pattern, by), source);
  return `# Made from the module of the same name in _async by \`npm run generate\`; do not edit.\n${text}`;
}
