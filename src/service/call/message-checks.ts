/**
 * Refuses requests whose fields hold what the proto files do not allow, in the same words on every wire.
 *
 * The checks are compiled once from the annotations into closures, only for fields that have some: a call without
 * anything to check costs nothing, and a short one a microsecond. Always true: a refusal is `invalid_request`, names
 * the place as the caller wrote it, such as `memories[3].type`, says what is allowed and never what was given. Whether
 * a field is there at all was judged when the request was read. Must not know: what a field means.
 */
import { type DescField, type DescMessage, getOption, type Message } from "@bufbuild/protobuf";
import { json } from "../../../gen/palimpsest/v1/options_pb.ts";
import { utf8Length } from "../../base/bytes.ts";
import { invalid } from "../../base/faults/errors.ts";
import { turn, type World } from "../../base/world.ts";
import { getJsonKind, heldElements } from "./exact-json.ts";
import {
  type Constraint,
  type FieldChoice,
  type ListConstraint,
  type NumberConstraint,
  readChoices,
  readConstraint,
  type TextConstraint,
} from "./constraints.ts";

type Properties = Message & Record<string, unknown>;
/** What is wrong with a value, after its place; undefined where nothing is. */
type CheckValue = (value: unknown) => Misfit | undefined;

/** What is wrong, and where: the place is put together only for a refusal. */
interface Misfit {
  readonly place: string;
  readonly says: string;
}

/** A list of messages at the top of a request may be long: so many are looked at before the others have their turn. */
const elementsAtOnce = 64;

/** Looks at a request. */
export type CheckMessage = (message: Message, world: Pick<World, "soon">) => Promise<void> | undefined;

/**
 * The check of a request. What it finds it throws, or rejects with where the request is long. It is compiled on first
 * use: all of them together are a tenth of a node's start.
 */
export function compileCheck(type: DescMessage): CheckMessage {
  let check: CheckMessage | undefined;
  return (message, world) => (check ??= compileWhole(type))(message, world);
}

function compileWhole(type: DescMessage): CheckMessage {
  const check = compileMessage(type, new Map());
  if (check === undefined) return () => undefined;
  const lists = type.fields.flatMap((field) => {
    const each = field.fieldKind === "list" && field.message ? compileMessage(field.message, new Map()) : undefined;
    return each ? [{ name: field.name, localName: field.localName, each }] : [];
  });
  const own = compileMessage(type, new Map(), lists.length > 0);
  const isLong = (message: Message): boolean =>
    lists.some(({ localName }) => ((message as Properties)[localName] as unknown[]).length > elementsAtOnce);
  const throughAll = async (message: Message, world: Pick<World, "soon">): Promise<void> => {
    refuse(own?.(message));
    for (const { name, localName, each } of lists)
      for (const [at, element] of ((message as Properties)[localName] as unknown[]).entries()) {
        if (at % elementsAtOnce === elementsAtOnce - 1) await turn(world);
        refuse(within(`${name}[${at}]`, each(element)));
      }
  };
  return (message, world) => {
    if (lists.length > 0 && isLong(message)) return throughAll(message, world);
    refuse(check(message));
    return undefined;
  };
}

function refuse(misfit: Misfit | undefined): void {
  if (misfit === undefined) return;
  const { place, says } = misfit;
  if (place === "") throw invalid(says);
  // What is said of a message as a whole is a sentence of its own.
  throw invalid(says.startsWith("must ") ? `${place} ${says}` : `${place}: ${says}`);
}

function within(place: string, misfit: Misfit | undefined): Misfit | undefined {
  if (misfit === undefined) return undefined;
  const { place: inner, says } = misfit;
  return { place: inner === "" || inner.startsWith("[") ? place + inner : `${place}.${inner}`, says };
}

/**
 * The check of a message; undefined where there is nothing to check. `known` are those that are being compiled, `isTop`
 * says that the elements of lists are looked at elsewhere.
 */
function compileMessage(
  type: DescMessage,
  known: Map<DescMessage, { check: CheckValue | undefined }>,
  isTop = false,
): CheckValue | undefined {
  const before = known.get(type);
  if (before) return (value) => before.check?.(value);
  const entry: { check: CheckValue | undefined } = { check: undefined };
  known.set(type, entry);
  const fields = type.fields.flatMap((field) => {
    const check = compileField(field, known, isTop);
    const { localName, name } = field;
    return check ? [{ name, check, read: getJsonKind(field) ? heldElements : readField, localName }] : [];
  });
  const choices = readChoices(type).map(compileChoice);
  known.delete(type);
  if (fields.length + choices.length === 0) return undefined;
  entry.check = (value) => {
    for (const choice of choices) {
      const misfit = choice(value);
      if (misfit) return misfit;
    }
    for (const { localName, name, read, check } of fields) {
      const given = read(value as Properties, localName);
      const misfit = given === undefined ? undefined : check(given);
      if (misfit) return within(name, misfit);
    }
    return undefined;
  };
  return entry.check;
}

function readField(message: Properties, localName: string): unknown {
  return message[localName];
}

function compileField(
  field: DescField,
  known: Map<DescMessage, { check: CheckValue | undefined }>,
  isTop: boolean,
): CheckValue | undefined {
  const constraint = readConstraint(field);
  const own = constraint && compileConstraint(constraint);
  // Only our own messages have rules; to look into any JSON would make its proto form.
  if (!field.message?.typeName.startsWith("palimpsest.") || field.fieldKind === "map") return own;
  if (field.fieldKind === "message" && getOption(field, json).bareList) {
    // Its one field is the list that callers see.
    const [list] = field.message.fields;
    const inner = list && readConstraint(list);
    const check = inner && compileConstraint(inner);
    return check && ((value) => check((value as Properties)[list!.localName]));
  }
  const each = isTop && field.fieldKind === "list" ? undefined : compileMessage(field.message, known);
  if (each === undefined) return own;
  const through: CheckValue = field.fieldKind === "list" ? (list) => findMisfit(list as unknown[], each) : each;
  return own ? (value) => own(value) ?? through(value) : through;
}

function compileConstraint(constraint: Constraint): CheckValue {
  const check = compileValue(constraint);
  if (!constraint.orEmpty) return check;
  return (value) => (isEmpty(value) ? undefined : check(value));
}

function compileValue(constraint: TextConstraint | NumberConstraint | ListConstraint): CheckValue {
  const misfit = { place: "", says: constraint.says };
  switch (constraint.kind) {
    case "text": {
      const fits = compileText(constraint);
      return (value) => (fits(value as string) ? undefined : misfit);
    }
    case "number": {
      const { min = -Infinity, max = Infinity, isAboveMin, values, isFinite } = constraint;
      return (value) => {
        const number = Number(value);
        // What is no number at all is within no bounds.
        const isWithin =
          number >= min && number <= max && !(isAboveMin && number === min) && (!isFinite || Number.isFinite(number));
        return isWithin && (values?.includes(number) ?? true) ? undefined : misfit;
      };
    }
    default: {
      const { itemsMin = 0, itemsMax = Infinity, isUnique, items } = constraint;
      const each = items && compileValue(items);
      return (value) => {
        const list = value as unknown[];
        if (list.length < itemsMin || list.length > itemsMax) return misfit;
        if (isUnique && new Set(list).size < list.length) return { place: "", says: "must not hold anything twice" };
        return each && findMisfit(list, each);
      };
    }
  }
}

function findMisfit(list: readonly unknown[], each: CheckValue): Misfit | undefined {
  for (let at = 0; at < list.length; at++) {
    const misfit = each(list[at]);
    if (misfit) return within(`[${at}]`, misfit);
  }
  return undefined;
}

function compileText(constraint: TextConstraint): (text: string) => boolean {
  const { charsMin = 0, charsMax = Infinity, bytesMin = 0, bytesMax = Infinity, pattern, values } = constraint;
  const matcher = pattern === undefined ? undefined : new RegExp(pattern, "u");
  const known = values && new Set(values);
  return (text) => {
    // A text has at most as many characters as units, and at most three bytes of each unit.
    if (text.length < bytesMin && utf8Length(text) < bytesMin) return false;
    if (text.length * 3 > bytesMax && utf8Length(text) > bytesMax) return false;
    if (text.length < charsMin || (text.length > charsMax && countChars(text) > charsMax)) return false;
    if (charsMin > 1 && countChars(text) < charsMin) return false;
    return (known?.has(text) ?? true) && (matcher?.test(text) ?? true);
  };
}

function countChars(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    count++;
    if (text.codePointAt(at)! > 0xffff) at++;
  }
  return count;
}

function compileChoice({ fields, least, most, says }: FieldChoice): CheckValue {
  const misfit = { place: "", says };
  // A field that does not know whether it is set holds what it holds when nothing was given.
  const named = fields.map(({ localName, proto }) => ({ localName, knows: proto.proto3Optional }));
  return (value) => {
    let given = 0;
    for (const { localName, knows } of named) {
      const one = (value as Properties)[localName];
      if (one !== undefined && (knows || !isEmpty(one))) given++;
    }
    return given < least || (most !== undefined && given > most) ? misfit : undefined;
  };
}

function isEmpty(value: unknown): boolean {
  return value === "" || value === 0 || value === 0n || value === false || (Array.isArray(value) && value.length === 0);
}
