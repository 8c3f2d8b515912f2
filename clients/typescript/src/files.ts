/** The tree of texts of a branch. */
import { operations } from "./generated/operations.ts";
import type {
  DeleteFilesQuery,
  DeleteFilesResponse,
  EditFileRequest,
  FileEntry,
  FileHit,
  FileVersion,
  FileWritten,
  GetFileQuery,
  GetFileResponse,
  ListFilesQuery,
  ListFilesResponse,
  ListFileVersionsResponse,
  MoveFilesRequest,
  MoveFilesResponse,
  PutFileRequest,
  SearchFilesRequest,
  SearchFilesResponse,
} from "./generated/types.ts";
import type { Scope } from "./scope.ts";
import type { CallOptions } from "./transport.ts";

export class Files {
  readonly #scope: Scope;

  constructor(scope: Scope) {
    this.#scope = scope;
  }

  /** Stores a text at a path. With `ifMatch` or `ifAbsent` only where that holds (else Conflict). */
  put(
    path: string,
    text: string,
    condition: Omit<PutFileRequest, "text"> = {},
    options?: CallOptions,
  ): Promise<FileWritten> {
    return this.#scope.call(operations.putFile, { path: { path }, body: { ...condition, text } }, options);
  }

  /** A file, or some of its lines, or undefined where there is none. */
  async get(path: string, query: GetFileQuery = {}, options?: CallOptions): Promise<GetFileResponse | undefined> {
    return (await this.#scope.find<GetFileResponse>(operations.getFile, { path: { path }, query }, options))?.value;
  }

  /** Edits a file by its strings or lines, all edits or none. */
  edit(path: string, request: EditFileRequest, options?: CallOptions): Promise<FileWritten> {
    return this.#scope.call(operations.editFile, { path: { path }, body: request }, options);
  }

  /** What is in a folder, or all files below it. */
  list(query: Omit<ListFilesQuery, "cursor"> = {}, options?: CallOptions): AsyncGenerator<FileEntry, void, undefined> {
    return this.#scope.list(operations.listFiles, { query }, ({ entries }: ListFilesResponse) => entries, options);
  }

  /** Moves a file, or all files of a folder. */
  move(path: string, request: MoveFilesRequest, options?: CallOptions): Promise<MoveFilesResponse> {
    return this.#scope.call(operations.moveFiles, { path: { path }, body: request }, options);
  }

  /** Deletes a file, or with `recursive` a folder. */
  delete(path: string, query: DeleteFilesQuery = {}, options?: CallOptions): Promise<DeleteFilesResponse> {
    return this.#scope.call(operations.deleteFiles, { path: { path }, query }, options);
  }

  /** The kept versions of a path, newest first. */
  async versions(path: string, options?: CallOptions): Promise<readonly FileVersion[]> {
    const parts = { path: { path } };
    return (await this.#scope.call<ListFileVersionsResponse>(operations.listFileVersions, parts, options)).versions;
  }

  /** Finds files by the words of their texts and paths, best first. */
  async search(request: SearchFilesRequest, options?: CallOptions): Promise<readonly FileHit[]> {
    return (await this.#scope.call<SearchFilesResponse>(operations.searchFiles, { body: request }, options)).hits;
  }
}
