/**
 * The nine tools of `@modelcontextprotocol/server-memory`, by its names and shapes, for whoever has prompts that use
 * them: a graph of entities, their observations, and relations between them.
 *
 * Always true: an entity and a relation are a document each, and every change is one that the store makes by itself
 * within one transaction, so that agents at once lose nothing of each other's. Their texts are found by any part of
 * them, whatever its case, as there. Must not know: the protocol's library.
 */
import { invalid, ServiceError } from "../../base/faults/errors.ts";
import { databaseOf } from "./full-tools.ts";
import { listOf, text } from "./schemas.ts";
import type { ArgumentSchema, Tool } from "./tool.ts";
import { count, listAsData } from "./tool-texts.ts";
import { type JsonObject, ofProfile, type ServiceAnswer, type Visit } from "./visit.ts";

/** The collections of documents. */
const entities = "graph_entities";
const relations = "graph_relations";
/** Entities, relations or observations that one call takes. */
const itemsMax = 100;
/** Documents of each kind in one answer. */
const nodesMax = 1_000;

interface Entity {
  readonly name: string;
  readonly entityType: string;
  readonly observations: readonly string[];
}

interface Relation {
  readonly from: string;
  readonly to: string;
  readonly relationType: string;
}

const names = (...fields: string[]): JsonObject =>
  Object.fromEntries(fields.map((field) => [field, { type: "string" }]));
const texts: JsonObject = { type: "array", items: { type: "string" } };
const entitySchema: JsonObject = {
  type: "object",
  properties: { ...names("name", "entityType"), observations: texts },
  required: ["name", "entityType", "observations"],
};
const relationSchema: JsonObject = {
  type: "object",
  properties: names("from", "to", "relationType"),
  required: ["from", "to", "relationType"],
};
const list = (items: JsonObject, description: string): ArgumentSchema => ({ type: "array", items, description });
const graphOf: Pick<Tool, "gives" | "always"> = {
  gives: {
    entities: listOf(entitySchema, "The entities."),
    relations: listOf(relationSchema, "The relations between them."),
  },
  always: ["entities", "relations"],
};

const createEntities: Tool = {
  name: "create_entities",
  title: "Create entities",
  description: "Create entities in the knowledge graph. One whose name is taken is left as it is.",
  takes: { entities: list(entitySchema, "The entities.") },
  required: ["entities"],
  gives: { entities: listOf(entitySchema, "Those that were created.") },
  always: ["entities"],
  effect: "adds",
  isIdempotent: true,
  async run(given, visit) {
    const created: Entity[] = [];
    for (const { name, entityType, observations } of items<Entity>(given["entities"], "entities")) {
      const entity = { name: named(name), entityType, observations: [...new Set(observations)] };
      const update = { $setOnInsert: { entityType, observations: entity.observations } };
      if (await upsert(visit, entities, entity.name, update)) created.push(entity);
    }
    return { structured: { entities: created }, text: `Created ${count(created.length, "entity", "entities")}.` };
  },
};

const createRelations: Tool = {
  name: "create_relations",
  title: "Create relations",
  description: "Create relations between entities, in active voice. One that is there already is left as it is.",
  takes: { relations: list(relationSchema, "The relations.") },
  required: ["relations"],
  gives: { relations: listOf(relationSchema, "Those that were created.") },
  always: ["relations"],
  effect: "adds",
  isIdempotent: true,
  async run(given, visit) {
    const created: Relation[] = [];
    for (const { from, to, relationType } of items<Relation>(given["relations"], "relations")) {
      const relation = { from, to, relationType };
      if (await upsert(visit, relations, relationId(relation), { $setOnInsert: relation })) created.push(relation);
    }
    return { structured: { relations: created }, text: `Created ${count(created.length, "relation", "relations")}.` };
  },
};

const observed: JsonObject = {
  type: "object",
  properties: { ...names("entityName"), contents: texts },
  required: ["entityName", "contents"],
};

const addObservations: Tool = {
  name: "add_observations",
  title: "Add observations",
  description: "Add observations to entities that are there.",
  takes: { observations: list(observed, "For each entity, what was observed.") },
  required: ["observations"],
  gives: { results: listOf({ type: "object" }, "For each entity, what was added.") },
  always: ["results"],
  effect: "adds",
  isIdempotent: true,
  async run(given, visit) {
    const results: JsonObject[] = [];
    for (const { entityName, contents } of items<Observed>(given["observations"], "observations")) {
      const [before] = await find<Entity>(visit, entities, { _id: entityName });
      if (!before) throw unknownEntity();
      const addedObservations = [...new Set(contents)].filter((content) => !before.observations.includes(content));
      const update = { $addToSet: { observations: { $each: contents } } };
      const change = inGraph(visit, entities, { filter: { _id: entityName }, update });
      const { body } = await visit.call("DataService.UpdateDocs", change);
      // It may have been deleted meanwhile.
      if (body["matched"] === 0) throw unknownEntity();
      results.push({ entityName, addedObservations });
    }
    return { structured: { results }, text: `Added to ${count(results.length, "entity", "entities")}.` };
  },
};

function unknownEntity(): ServiceError {
  return new ServiceError("not_found", "an entity of observations is not there: create it first");
}

interface Observed {
  readonly entityName: string;
  readonly contents: readonly string[];
}

interface Deleted {
  readonly entityName: string;
  readonly observations: readonly string[];
}

const done: Pick<Tool, "gives" | "always" | "effect" | "isIdempotent"> = {
  gives: { success: { type: "boolean" }, message: text("What was done.") },
  always: ["success", "message"],
  effect: "destroys",
  isIdempotent: true,
};

const deleteEntities: Tool = {
  name: "delete_entities",
  title: "Delete entities",
  description: "Delete entities with their relations.",
  takes: { entityNames: list({ type: "string" }, "Their names.") },
  required: ["entityNames"],
  ...done,
  async run(given, visit) {
    const gone = items<string>(given["entityNames"], "entityNames");
    await remove(visit, relations, { $or: [{ from: { $in: gone } }, { to: { $in: gone } }] });
    await remove(visit, entities, { _id: { $in: gone } });
    return succeeded("Entities deleted successfully");
  },
};

const deleteObservations: Tool = {
  name: "delete_observations",
  title: "Delete observations",
  description: "Delete observations of entities.",
  takes: {
    deletions: list(
      {
        type: "object",
        properties: { ...names("entityName"), observations: texts },
        required: ["entityName", "observations"],
      },
      "For each entity, what to delete.",
    ),
  },
  required: ["deletions"],
  ...done,
  async run(given, visit) {
    for (const { entityName, observations } of items<Deleted>(given["deletions"], "deletions")) {
      const change = { filter: { _id: entityName }, update: { $pullAll: { observations } } };
      await orNothing(visit.call("DataService.UpdateDocs", inGraph(visit, entities, change)));
    }
    return succeeded("Observations deleted successfully");
  },
};

const deleteRelations: Tool = {
  name: "delete_relations",
  title: "Delete relations",
  description: "Delete relations.",
  takes: { relations: list(relationSchema, "The relations.") },
  required: ["relations"],
  ...done,
  async run(given, visit) {
    const ids = items<Relation>(given["relations"], "relations").map(relationId);
    await remove(visit, relations, { _id: { $in: ids } });
    return succeeded("Relations deleted successfully");
  },
};

const readGraph: Tool = {
  name: "read_graph",
  title: "Read graph",
  description: "The whole knowledge graph.",
  takes: {},
  required: [],
  ...graphOf,
  effect: "reads",
  isIdempotent: true,
  run: (_, visit) => answerGraph(visit, {}),
};

const searchNodes: Tool = {
  name: "search_nodes",
  title: "Search nodes",
  description: "Entities whose name, type or observations hold a text, with the relations between them.",
  takes: { query: { type: "string", description: "The text." } },
  required: ["query"],
  ...graphOf,
  effect: "reads",
  isIdempotent: true,
  run({ query }, visit) {
    const part = { $regex: escapePattern(query as string), $options: "i" };
    return answerGraph(visit, { $or: [{ _id: part }, { entityType: part }, { observations: part }] });
  },
};

const openNodes: Tool = {
  name: "open_nodes",
  title: "Open nodes",
  description: "Entities by their names, with the relations between them.",
  takes: { names: list({ type: "string" }, "Their names.") },
  required: ["names"],
  ...graphOf,
  effect: "reads",
  isIdempotent: true,
  run: (given, visit) => answerGraph(visit, { _id: { $in: items<string>(given["names"], "names") } }),
};

/** The nine tools. */
export const graphTools: readonly Tool[] = [
  createEntities,
  createRelations,
  addObservations,
  deleteEntities,
  deleteObservations,
  deleteRelations,
  readGraph,
  searchNodes,
  openNodes,
];

async function answerGraph(visit: Visit, filter: JsonObject): ReturnType<Tool["run"]> {
  const found = (await find<Omit<Entity, "name"> & { readonly _id: string }>(visit, entities, filter)).map(
    ({ _id: name, entityType, observations }) => ({ name, entityType, observations }),
  );
  const known = found.map(({ name }) => name);
  const between = { $and: [{ from: { $in: known } }, { to: { $in: known } }] };
  const joining = known.length === 0 ? [] : await find<Relation>(visit, relations, between);
  const related = joining.map(({ from, to, relationType }) => ({ from, to, relationType }));
  const structured = { entities: found, relations: related };
  const told = `${count(found.length, "entity", "entities")}, ${count(related.length, "relation", "relations")}`;
  return { structured, text: `${told}\n${listAsData("graph", [...found, ...related])}` };
}

function succeeded(message: string): Awaited<ReturnType<Tool["run"]>> {
  return { structured: { success: true, message }, text: message };
}

/** Changes the document of this id or makes it, and the profile where there is none. Gives whether it was made. */
async function upsert(visit: Visit, coll: string, id: string, update: JsonObject): Promise<boolean> {
  const change = inGraph(visit, coll, { filter: { _id: id }, update, upsert: true });
  const call = (): Promise<ServiceAnswer> => visit.call("DataService.UpdateDocs", change);
  const { body } = await call().catch(async (error: unknown) => {
    if (!isAbsent(error)) throw error;
    // A profile is made by its first memory: this one says where the graph is.
    await visit.call("MemoryService.Ingest", {
      ...ofProfile(visit),
      memories: [
        {
          type: "fact",
          summary: `A graph of entities and relations is kept in the documents ${entities} and ${relations}`,
          content: null,
          topic_key: "graph",
        },
      ],
    });
    return call();
  });
  return body["upserted_id"] !== undefined;
}

async function find<Doc>(visit: Visit, coll: string, filter: JsonObject): Promise<readonly Doc[]> {
  const asked = inGraph(visit, coll, { filter, limit: nodesMax, sort: { _id: 1 } });
  const answer = await orNothing(visit.call<{ docs: readonly Doc[] }>("DataService.FindDocs", asked));
  return answer?.body.docs ?? [];
}

async function remove(visit: Visit, coll: string, filter: JsonObject): Promise<void> {
  await orNothing(visit.call("DataService.DeleteDocs", inGraph(visit, coll, { filter, multi: true })));
}

/** A profile that is not there yet has no graph. */
function orNothing<Answer>(call: Promise<Answer>): Promise<Answer | undefined> {
  return call.catch((error: unknown) => {
    if (isAbsent(error)) return undefined;
    throw error;
  });
}

function isAbsent(error: unknown): boolean {
  return error instanceof ServiceError && error.code === "database_not_found";
}

function inGraph(visit: Visit, coll: string, fields: JsonObject): JsonObject {
  return { db: databaseOf(visit), coll, ...fields };
}

function items<Item>(given: unknown, field: string): readonly Item[] {
  const found = given as readonly Item[];
  if (found.length > itemsMax) throw invalid(`${field} may hold ${itemsMax} at once`);
  return found;
}

/** Of a relation: the same relation has the same id. */
function relationId({ from, to, relationType }: Relation): string {
  return JSON.stringify([from, relationType, to]);
}

function named(name: unknown): string {
  if (typeof name === "string" && name !== "") return name;
  throw invalid("an entity's name must be a text that is not empty");
}

function escapePattern(part: string): string {
  return part.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
