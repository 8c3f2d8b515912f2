import fc from "fast-check";
import { test, expect } from "vitest";
import { queryTerms, foldText } from "/work/main/src/model/words.ts";
import { ModelDatabase } from "/work/main/test/support/model-database.ts";
import { memorySchema } from "/work/main/src/model/memory-schema.ts";
import { vectorsSchema } from "/work/main/src/model/vectors.ts";
import { ingest, forget } from "/work/main/src/model/memory.ts";
import { recall } from "/work/main/src/model/recall.ts";
test("p",()=>{
 const database=new ModelDatabase(memorySchema+vectorsSchema);let bad=0;
 fc.assert(fc.property(fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 }).filter((text) => /\p{L}/u.test(text)), (text) => {
   const summary=`${text} mark`;
   const id=database.write((tx) => ingest(tx, { memories: [{ type: "event", summary, content: "null" }] })).results[0]!.id;
   const found = recall(database.view(), { query: summary, k: 1000 }).memories.map((memory) => memory.id);
   if(!found.includes(id)&&bad++<6){ console.log(JSON.stringify(summary), queryTerms(summary).map(t=>t.word+" "+[...t.word].map(c=>c.codePointAt(0)!.toString(16)).join(",")+" df="+database.connection.prepared("SELECT rowid FROM __service_memory_text WHERE __service_memory_text MATCH ?").pluck().all(t.match).length), foldText(summary));}
   database.write((tx) => forget(tx, { id }));
 }),{numRuns:30000});
 console.log("bad",bad);database.close();
});
