/** Documents of one collection. */
import { operations } from "./generated/operations.ts";
import type {
  CreateDocIndexResponse,
  DeleteDocQuery,
  DeleteDocResponse,
  DeleteDocsRequest,
  DeleteDocsResponse,
  FindDocsRequest,
  FindDocsResponse,
  GetDocResponse,
  InsertDocsResponse,
  JsonObject,
  PutDocRequest,
  PutDocResponse,
  UpdateDocsRequest,
  UpdateDocsResponse,
} from "./generated/types.ts";
import type { Scope } from "./scope.ts";
import type { CallOptions } from "./transport.ts";

/** A collection of a branch. `Doc` is what its documents look like, as far as the program says. */
export class Documents<Doc extends object = JsonObject> {
  readonly #scope: Scope;
  readonly #coll: string;

  constructor(scope: Scope, coll: string) {
    this.#scope = scope;
    this.#coll = coll;
  }

  /** Inserts documents, all or none; those without an `_id` get one. */
  insert(docs: Doc | readonly Doc[], options?: CallOptions): Promise<InsertDocsResponse> {
    return this.#scope.call(operations.insertDocs, this.#with({ docs: Array.isArray(docs) ? docs : [docs] }), options);
  }

  /** The document of that id with its hash, or undefined where there is none. */
  async get(id: string, options?: CallOptions): Promise<GetDocResponse | undefined> {
    return (await this.#scope.find<GetDocResponse>(operations.getDoc, this.#at(id), options))?.value;
  }

  /** Puts a document under an id. With `ifMatch` or `ifAbsent` only where that holds (else Conflict). */
  put(
    id: string,
    doc: Doc,
    condition: Omit<PutDocRequest, "doc"> = {},
    options?: CallOptions,
  ): Promise<PutDocResponse> {
    return this.#scope.call(operations.putDoc, { ...this.#at(id), body: { ...condition, doc } }, options);
  }

  /** Deletes the document of that id. */
  delete(id: string, query: DeleteDocQuery = {}, options?: CallOptions): Promise<DeleteDocResponse> {
    return this.#scope.call(operations.deleteDoc, { ...this.#at(id), query }, options);
  }

  /** Finds documents by a filter, sorted, at most 1,000. */
  async find(request: FindDocsRequest = {}, options?: CallOptions): Promise<readonly Doc[]> {
    const { docs } = await this.#scope.call<FindDocsResponse>(operations.findDocs, this.#with(request), options);
    return docs as readonly unknown[] as readonly Doc[];
  }

  /** Changes the documents that a filter holds of. */
  update(request: UpdateDocsRequest, options?: CallOptions): Promise<UpdateDocsResponse> {
    return this.#scope.call(operations.updateDocs, this.#with(request), options);
  }

  /** Deletes the documents that a filter holds of. */
  deleteMany(request: DeleteDocsRequest, options?: CallOptions): Promise<DeleteDocsResponse> {
    return this.#scope.call(operations.deleteDocs, this.#with(request), options);
  }

  /** Makes an index on a path. */
  createIndex(path: string, options?: CallOptions): Promise<CreateDocIndexResponse> {
    return this.#scope.call(operations.createDocIndex, this.#with({ path }), options);
  }

  #with(body: object): { readonly path: Readonly<Record<string, string>>; readonly body: object } {
    return { path: { coll: this.#coll }, body };
  }

  #at(id: string): { readonly path: Readonly<Record<string, string>> } {
    return { path: { coll: this.#coll, id } };
  }
}
