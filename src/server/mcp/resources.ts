/**
 * What a client can read without calling a tool: the profile as a page of markdown, and its topics.
 *
 * Always true: both are read by calls of the service, as the visitor; an address of another profile than the visit's is
 * not found, whether there is one or not. Must not know: the protocol's library.
 */
import { dataBlock, fenced } from "../../ai/data-block.ts";
import { type JsonObject, ofProfile, type ServiceAnswer, type Visit } from "./visit.ts";

/** A resource as it is listed. */
export interface ListedResource {
  readonly uri: string;
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly mimeType: string;
}

interface Resource extends Omit<ListedResource, "uri"> {
  read(visit: Visit): Promise<string>;
}

/** What a page of the profile counts at most. */
const profileTokens = 4_000;
/** Pages of memories that are looked at for topics, of a thousand each. */
const topicPagesMax = 10;

/** What ListMemories gives, as far as it is of use here. */
interface Listed {
  readonly memories: readonly { readonly topic_key: string | null; readonly type: string; readonly summary: string }[];
  readonly next_cursor: string | null;
}

const resources: readonly Resource[] = [
  {
    name: "profile",
    title: "Profile",
    description: "Standing instructions and the facts that hold, pinned ones first.",
    mimeType: "text/markdown",
    async read(visit) {
      const sections = [{ name: "instructions" }, { name: "facts" }];
      const request = { ...ofProfile(visit), max_tokens: profileTokens, sections };
      return (await visit.call<{ text: string }>("MemoryService.GetContext", request)).body.text;
    },
  },
  {
    name: "topics",
    title: "Topics",
    description: "The topics on which something is held, with its type and how it goes, the newest first.",
    mimeType: "text/markdown",
    async read(visit) {
      const topics: JsonObject[] = [];
      let cursor: string | null = null;
      for (let pages = 0; pages === 0 || (cursor !== null && pages < topicPagesMax); pages++) {
        const request: JsonObject = {
          ...ofProfile(visit),
          types: "fact,instruction",
          limit: 1000,
          ...(cursor !== null && { cursor }),
        };
        const { body }: ServiceAnswer<Listed> = await visit.call("MemoryService.ListMemories", request);
        for (const { topic_key: topic, type, summary } of body.memories)
          if (topic !== null) topics.push({ topic, type, summary });
        cursor = body.next_cursor;
      }
      const lines = topics.map((topic) => fenced(JSON.stringify(topic)));
      const note = cursor === null ? "" : "\nThere are more: list_memories gives them.";
      return `${dataBlock("topics", lines.join("\n"))}${note}\n`;
    },
  },
];

/** What there is for the visit's profile. */
export function listResources(visit: Visit): readonly ListedResource[] {
  return resources.map(({ read: _, ...resource }) => ({ ...resource, uri: uriOf(visit, resource.name) }));
}

/** The text of a resource of the visit's profile; undefined where there is none of that address. */
export async function readResource(
  visit: Visit,
  uri: string,
): Promise<{ readonly mimeType: string; readonly text: string } | undefined> {
  const resource = resources.find(({ name }) => uriOf(visit, name) === uri);
  return resource && { mimeType: resource.mimeType, text: await resource.read(visit) };
}

function uriOf({ address: { ns, profile, branch } }: Visit, name: string): string {
  return `memory://${ns}/${profile}${branch === undefined ? "" : `@${branch}`}/${name}`;
}
