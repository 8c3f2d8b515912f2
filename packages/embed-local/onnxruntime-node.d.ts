/** What this package uses of the runtime: it is checked with the repository, which does not install it. */
declare module "onnxruntime-node" {
  class Tensor {
    constructor(type: "int64", data: BigInt64Array, dims: readonly number[]);
    readonly data: Float32Array;
  }
  interface SessionOptions {
    readonly intraOpNumThreads: number;
    readonly interOpNumThreads: number;
    readonly executionMode: "sequential";
    readonly enableCpuMemArena: boolean;
    readonly enableMemPattern: boolean;
  }
  class InferenceSession {
    static create(path: string, options: SessionOptions): Promise<InferenceSession>;
    run(feeds: Readonly<Record<string, Tensor>>): Promise<Readonly<Record<string, Tensor>>>;
  }
  const runtime: { readonly Tensor: typeof Tensor; readonly InferenceSession: typeof InferenceSession };
  export default runtime;
}
