/**
 * The platforms that have a package of compiled libraries, and what each package says of itself.
 *
 * Always true: a package has the version of the main one, which names it as an optional dependency of exactly that
 * version; npm installs the one that fits the machine. Must not know: how anything is compiled.
 */

/** One platform as npm and Node name it. */
export interface Target {
  readonly platform: "linux" | "darwin";
  readonly arch: "x64" | "arm64";
  readonly libc?: "glibc" | "musl";
  /** As Zig's compiler names it; the oldest glibc is that of Node's own binaries. */
  readonly triple: string;
}

export const targets: readonly Target[] = [
  { platform: "linux", arch: "x64", libc: "glibc", triple: "x86_64-linux-gnu.2.28" },
  { platform: "linux", arch: "arm64", libc: "glibc", triple: "aarch64-linux-gnu.2.28" },
  { platform: "linux", arch: "x64", libc: "musl", triple: "x86_64-linux-musl" },
  { platform: "linux", arch: "arm64", libc: "musl", triple: "aarch64-linux-musl" },
  { platform: "darwin", arch: "x64", triple: "x86_64-macos" },
  { platform: "darwin", arch: "arm64", triple: "aarch64-macos" },
];

/** The name under which native/library.cjs looks for it. */
export function packageName({ platform, arch, libc }: Target): string {
  return `@palimpsest/native-${platform}-${arch}${libc === "musl" ? "-musl" : ""}`;
}

/** What the manifests of all packages have from the main one. */
export interface MainManifest {
  readonly version: string;
  readonly license: string;
  readonly repository?: string;
}

/** The manifest of a platform's package with those files. */
export function platformManifest(target: Target, main: MainManifest, files: readonly string[]): object {
  const { platform, arch, libc } = target;
  return {
    name: packageName(target),
    version: main.version,
    description: `What palimpsest has compiled for ${[platform, arch, libc].filter((part) => part).join(" ")}.`,
    license: main.license,
    repository: main.repository,
    os: [platform],
    cpu: [arch],
    libc: libc && [libc],
    files,
    exports: { "./package.json": "./package.json" },
  };
}

/**
 * The main package's manifest as it is published: with the packages of the platforms, which have the index of vectors
 * too, so that its own package, which everyone would compile, is left to those who want it; without what only a checkout
 * can run; and with `usearch` as an option, as it has nothing for musl. A checkout insists on it: npm leaves an option
 * out where the Node that it runs with is older than the option wants, though the checkout brings a newer one.
 */
export function publishedManifest(manifest: Readonly<Record<string, unknown>>, repository?: string): object {
  const { devDependencies: _tools, knip: _checks, scripts, ...rest } = manifest;
  const { usearch, ...dependencies } = rest["dependencies"] as Record<string, string>;
  const version = rest["version"] as string;
  const platforms = Object.fromEntries(targets.map((target) => [packageName(target), version]));
  return {
    ...rest,
    repository,
    scripts: { install: (scripts as Record<string, string>)["install"] },
    dependencies,
    optionalDependencies: { usearch, ...platforms },
  };
}
