/** Vectors of one collection. */
import { operations } from "./generated/operations.ts";
import type {
  DeleteVectorsRequest,
  DeleteVectorsResponse,
  GetVectorResponse,
  ListVectorsQuery,
  ListVectorsResponse,
  SearchVectorsRequest,
  SearchVectorsResponse,
  UpsertVectorRequest,
  UpsertVectorResponse,
  UpsertVectorsRequest,
  UpsertVectorsResponse,
  VectorHit,
  VectorItem,
} from "./generated/types.ts";
import type { Scope } from "./scope.ts";
import type { CallOptions } from "./transport.ts";

/** A vector collection of a branch. */
export class Vectors {
  readonly #scope: Scope;
  readonly #path: Readonly<Record<string, string>>;

  constructor(scope: Scope, coll: string) {
    this.#scope = scope;
    this.#path = { coll };
  }

  /** Stores one vector under its id. */
  upsert(vector: UpsertVectorRequest, options?: CallOptions): Promise<UpsertVectorResponse> {
    return this.#scope.call(operations.upsertVector, { path: this.#path, body: vector }, options);
  }

  /** Stores many vectors, all or none. */
  upsertMany(request: UpsertVectorsRequest, options?: CallOptions): Promise<UpsertVectorsResponse> {
    return this.#scope.call(operations.upsertVectors, { path: this.#path, body: request }, options);
  }

  /** The vector of that id, or undefined where there is none. */
  async get(id: string, options?: CallOptions): Promise<GetVectorResponse | undefined> {
    const parts = { path: { ...this.#path, id } };
    return (await this.#scope.find<GetVectorResponse>(operations.getVector, parts, options))?.value;
  }

  /** Deletes a vector; one that is not there is no error. */
  delete(id: string, options?: CallOptions): Promise<void> {
    return this.#scope.call(operations.deleteVector, { path: { ...this.#path, id } }, options);
  }

  /** Deletes many vectors. */
  deleteMany(request: DeleteVectorsRequest, options?: CallOptions): Promise<DeleteVectorsResponse> {
    return this.#scope.call(operations.deleteVectors, { path: this.#path, body: request }, options);
  }

  /** The vectors nearest to one, nearest first. */
  async search(request: SearchVectorsRequest, options?: CallOptions): Promise<readonly VectorHit[]> {
    const parts = { path: this.#path, body: request };
    return (await this.#scope.call<SearchVectorsResponse>(operations.searchVectors, parts, options)).hits;
  }

  /** All vectors by id. */
  list(
    query: Omit<ListVectorsQuery, "cursor"> = {},
    options?: CallOptions,
  ): AsyncGenerator<VectorItem, void, undefined> {
    const parts = { path: this.#path, query };
    return this.#scope.list(operations.listVectors, parts, ({ vectors }: ListVectorsResponse) => vectors, options);
  }
}
