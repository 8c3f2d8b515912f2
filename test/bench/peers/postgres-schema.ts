/**
 * What Postgres is told to keep. `remember` does in one call what an ingest does: an index of words, one memory where
 * two are equal, a new fact in place of the old one on its topic. A plain table only takes the row.
 */

/** A table of memories within the schema; with a dimension each has a vector, and an HNSW index if asked for. */
export interface TableOptions {
  readonly plain: boolean;
  readonly dimension: number | undefined;
  readonly hnsw: boolean;
}

export const keyValueSql = "CREATE TABLE IF NOT EXISTS kv (key text PRIMARY KEY, value text NOT NULL)";

export function schemaSql(schema: string, { plain, dimension, hnsw }: TableOptions): string {
  const memory = `"${schema}".memory`;
  if (plain)
    return `
      CREATE SCHEMA IF NOT EXISTS "${schema}";
      CREATE TABLE IF NOT EXISTS ${memory} (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        tenant text NOT NULL, type text NOT NULL, topic_key text, summary text NOT NULL, content jsonb NOT NULL
      );`;
  return `
    CREATE SCHEMA IF NOT EXISTS "${schema}";
    CREATE SEQUENCE "${schema}".memory_id;
    CREATE TABLE ${memory} (
      id bigint PRIMARY KEY DEFAULT nextval('"${schema}".memory_id'),
      tenant text NOT NULL, type text NOT NULL, topic_key text, summary text NOT NULL, content jsonb NOT NULL,
      fingerprint bytea NOT NULL, superseded_by bigint, created_at timestamptz NOT NULL DEFAULT now(),
      words tsvector GENERATED ALWAYS AS
        (to_tsvector('english'::regconfig, summary || ' ' || (content ->> 'text'))) STORED
      ${dimension === undefined ? "" : `, embedding vector(${dimension})`}
    );
    CREATE UNIQUE INDEX ON ${memory} (tenant, fingerprint) WHERE superseded_by IS NULL;
    CREATE UNIQUE INDEX ON ${memory} (tenant, type, topic_key) WHERE superseded_by IS NULL AND topic_key IS NOT NULL;
    CREATE INDEX ON ${memory} USING gin (words);
    ${hnsw && dimension !== undefined ? `CREATE INDEX ON ${memory} USING hnsw (embedding vector_cosine_ops);` : ""}
    CREATE FUNCTION "${schema}".fingerprint(type text, topic text, summary text, content jsonb) RETURNS bytea
    LANGUAGE sql IMMUTABLE AS $$
      SELECT sha256(convert_to(jsonb_build_array(type, topic, summary, content)::text, 'UTF8'))
    $$;
    CREATE FUNCTION "${schema}".remember(
      of_tenant text, of_type text, of_topic text, its_summary text, its_content jsonb
      ${dimension === undefined ? "" : ", its_embedding vector"}
    ) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
      hash bytea := "${schema}".fingerprint(of_type, of_topic, its_summary, its_content);
      known bigint;
      new_id bigint;
    BEGIN
      SELECT id INTO known FROM ${memory}
        WHERE tenant = of_tenant AND fingerprint = hash AND superseded_by IS NULL;
      IF FOUND THEN RETURN known; END IF;
      new_id := nextval('"${schema}".memory_id');
      IF of_topic IS NOT NULL THEN
        -- One after the other on a topic: both would find the same fact to supersede.
        PERFORM pg_advisory_xact_lock(hashtextextended(of_tenant || of_type || of_topic, 0));
        UPDATE ${memory} SET superseded_by = new_id
          WHERE tenant = of_tenant AND type = of_type AND topic_key = of_topic AND superseded_by IS NULL;
      END IF;
      INSERT INTO ${memory} (id, tenant, type, topic_key, summary, content, fingerprint
        ${dimension === undefined ? "" : ", embedding"})
      VALUES (new_id, of_tenant, of_type, of_topic, its_summary, its_content, hash
        ${dimension === undefined ? "" : ", its_embedding"})
      ON CONFLICT DO NOTHING;
      RETURN new_id;
    END $$;`;
}

/** One memory: tenant, type, topic, summary, content and, where there are any, the vector. */
export function ingestSql(schema: string, { plain, dimension }: TableOptions): string {
  if (plain)
    return `INSERT INTO "${schema}".memory (tenant, type, topic_key, summary, content) VALUES ($1, $2, $3, $4, $5)`;
  return `SELECT "${schema}".remember($1, $2, $3, $4, $5${dimension === undefined ? "" : ", $6"})`;
}

/** Many memories in one statement: the tenant, then an array of each column. None has a topic. */
export function importSql(schema: string, { plain, dimension }: TableOptions): string {
  if (plain)
    return `
      INSERT INTO "${schema}".memory (tenant, type, summary, content)
      SELECT $1, type, summary, content
      FROM unnest($2::text[], $3::text[], $4::jsonb[]) AS new (type, summary, content)`;
  const [column, array, name] =
    dimension === undefined ? ["", "", ""] : [", embedding", ", $5::vector[]", ", embedding"];
  return `
    INSERT INTO "${schema}".memory (tenant, type, summary, content, fingerprint${column})
    SELECT $1, type, summary, content, "${schema}".fingerprint(type, NULL, summary, content)${name}
    FROM unnest($2::text[], $3::text[], $4::jsonb[]${array}) AS new (type, summary, content${name})
    ON CONFLICT DO NOTHING`;
}

/** Fifty by words and fifty by vector, their ranks fused: tenant, words as an OR, vector. */
export function recallSql(schema: string): string {
  return `
    WITH by_words AS (
      SELECT id, ts_rank_cd(words, asked) AS score
      FROM "${schema}".memory, to_tsquery('english', $2) AS asked
      WHERE words @@ asked AND tenant = $1 AND superseded_by IS NULL
      ORDER BY score DESC, id LIMIT 50
    ), by_vector AS (
      SELECT id, embedding <=> $3 AS distance FROM "${schema}".memory
      WHERE tenant = $1 AND superseded_by IS NULL
      ORDER BY embedding <=> $3 LIMIT 50
    ), ranked AS (
      SELECT id, row_number() OVER (ORDER BY score DESC, id) AS rank FROM by_words
      UNION ALL
      SELECT id, row_number() OVER (ORDER BY distance) AS rank FROM by_vector
    )
    SELECT id, summary, content, fused.score
    FROM (SELECT id, sum(1.0 / (60 + rank)) AS score FROM ranked GROUP BY id ORDER BY score DESC LIMIT 10) AS fused
    JOIN "${schema}".memory USING (id) ORDER BY fused.score DESC`;
}
