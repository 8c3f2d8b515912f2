/** The client of `examples/go`, with the modules of the language's registry. */
import { testGeneratedClient } from "../support/generated-clients.ts";

testGeneratedClient({
  language: "Go",
  folder: "examples/go",
  profile: "gina",
  person: "Gina",
  notFound: "NotFound",
  unauthenticated: "Unauthenticated",
});
