/**
 * What is known of embedding models that no protocol tells: what a provider is asked for when no model is named, how
 * near to each other a model puts texts that have nothing in common, and what a text must begin with.
 */

/** Those that texts are sent to. */
export type EmbedProvider = "voyage" | "openai";

/** What a text is embedded for: many models put questions and what answers them differently. */
export type EmbedUse = "document" | "query";

interface ProviderFacts {
  readonly model: string;
  readonly baseAddress: string;
}

export const embedProviders: Readonly<Record<EmbedProvider, ProviderFacts>> = {
  voyage: { model: "voyage-4", baseAddress: "https://api.voyageai.com/v1" },
  openai: { model: "text-embedding-3-small", baseAddress: "https://api.openai.com/v1" },
};

/** What a model is known for. */
export interface ModelTraits {
  /** The cosine below which two texts have nothing to do with each other. */
  readonly floor: number;
  /** What the model's makers put before a text for each use. */
  readonly prefixes: Readonly<Record<EmbedUse, string>>;
}

const usual: ModelTraits = { floor: 0.2, prefixes: { document: "", query: "" } };

/**
 * By name, without what comes before a slash and after a colon. Floors are the ranges that the models' own cards state;
 * that of all-MiniLM-L6-v2 was measured: of the best cosines for questions on LoCoMo, 95 % are above .50 in the
 * conversation that was asked about, and 95 % below .48 in another one.
 */
const known: readonly (readonly [RegExp, Partial<ModelTraits>])[] = [
  [/^text-embedding-ada-002$/, { floor: 0.7 }],
  [
    /^(?:multilingual-)?e5-(?:small|base|large)(?:-v2)?$/,
    { floor: 0.7, prefixes: { document: "passage: ", query: "query: " } },
  ],
  [/^all-minilm(?:-l6-v2.*)?$/, { floor: 0.5 }],
  [/^bge-(?:small|base|large)-(?:en|zh)$/, { floor: 0.6 }],
  [/^nomic-embed-text/, { floor: 0.4, prefixes: { document: "search_document: ", query: "search_query: " } }],
  [
    /^mxbai-embed-large/,
    { prefixes: { document: "", query: "Represent this sentence for searching relevant passages: " } },
  ],
];

/** The traits of a model by the name that its server gives it. */
export function findTraits(model: string): ModelTraits {
  const name = model.replace(/^.*\//, "").replace(/:.*$/, "").toLowerCase();
  return { ...usual, ...known.find(([pattern]) => pattern.test(name))?.[1] };
}
