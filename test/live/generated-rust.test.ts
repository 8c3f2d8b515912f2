/** The client of `examples/rust`, with the crates of the language's registry. */
import { testGeneratedClient } from "../support/generated-clients.ts";

testGeneratedClient({
  language: "Rust",
  folder: "examples/rust",
  profile: "rita",
  person: "Rita",
  notFound: "NotFound",
  unauthenticated: "valid authentication credentials",
});
