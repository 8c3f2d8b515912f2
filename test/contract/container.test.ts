/** What the image and the example cluster must say: known variables, one Node, pinned images, no root, no secret. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { packageRoot } from "../../src/base/package-root.ts";
import { readConfig } from "../../src/server/config/config.ts";
import { settings } from "../../src/server/config/settings.ts";
import { startRefusals } from "../../src/server/config/start-checks.ts";

function read(name: string): string {
  return readFileSync(new URL(name, packageRoot), "utf8");
}

/** The file without its comments: lines that begin with a number sign, and what follows one after a blank. */
function withoutComments(text: string): string {
  return text.replaceAll(/(^|\s)#.*$/gm, "$1");
}

const dockerfile = withoutComments(read("Dockerfile"));
const compose = withoutComments(read("compose.yaml"));
const exampleVariables = read("compose.env.example");
const manifest = JSON.parse(read("package.json")) as {
  readonly version: string;
  readonly engines: { readonly node: string };
  readonly devDependencies: { readonly node: string };
};

const known = new Set(Object.values(settings).map(({ variable }) => variable));

/** The lines of an indented block, such as a service, without its own heading. */
function block(text: string, heading: RegExp): string {
  const lines = text.split("\n");
  const start = lines.findIndex((line) => heading.test(line));
  expect(start, String(heading)).toBeGreaterThanOrEqual(0);
  const depth = lines[start]!.search(/\S/);
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => line.trim() !== "" && line.search(/\S/) <= depth);
  return rest.slice(0, end < 0 ? undefined : end).join("\n");
}

/** `NAME: value` and `NAME=value` of a text, for names in capitals. */
function variablesIn(text: string): ReadonlyMap<string, string> {
  return new Map(
    [...text.matchAll(/\b([A-Z][A-Z0-9_]+)(?:: *|=)("?)([^"\n\\]*?)\2 *(?:\\?$)/gm)].map((match) => [
      match[1]!,
      match[3]!,
    ]),
  );
}

const nodes = ["node-1", "node-2", "node-3"];

/** What a node of the example cluster is told, with every secret filled in. */
function readVariables(node: string): Record<string, string> {
  const shared = variablesIn(block(compose, /^x-variables:/));
  const own = variablesIn(block(block(compose, new RegExp(`^  ${node}:$`)), /^    environment:$/));
  const filled = [...variablesIn(dockerfile), ...shared, ...own].map(
    ([name, value]) => [name, value.startsWith("${") ? filling(name) : value] as const,
  );
  return Object.fromEntries(filled.filter(([name]) => /^(SERVICE|AWS)_/.test(name)));
}

function filling(name: string): string {
  // An Ed25519 key in PKCS#8, whose 32 bytes are all one.
  return name === "SERVICE_AUTH_KEY"
    ? Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, 1)]).toString("base64")
    : `filled-in-${name.toLowerCase()}`;
}

test("every variable that the image and the cluster set is one of a node", () => {
  const named = [...`${dockerfile}\n${compose}\n${exampleVariables}`.matchAll(/\bSERVICE_[A-Z0-9_]+/g)].map(
    ([name]) => name,
  );
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((name) => !known.has(name))).toEqual([]);
});

test("each node of the cluster has a configuration of its own that starts, with credentials", () => {
  // Coordinated, under a name and address of its own.
  const configs = nodes.map((node) => {
    const reading = readConfig(readVariables(node), { pid: 1, cores: 2 });
    if (!("config" in reading)) throw new Error(reading.problems.join("; "));
    expect(reading.warnings).toEqual([]);
    expect(startRefusals(reading.config)).toEqual([]);
    return reading.config;
  });
  for (const config of configs) {
    expect(config).toMatchObject({
      auth: "on",
      coordination: ["http://etcd:2379"],
      dataDirectory: "/data",
      listen: { host: "0.0.0.0", port: 8080 },
    });
    expect(config.objectStore).toMatchObject({
      kind: "s3",
      bucket: "palimpsest",
      endpoint: "http://s3:7070",
      plainHttp: true,
    });
  }
  expect(configs.map(({ advertise }) => advertise)).toEqual(nodes.map((node) => `http://${node}:8080`));
  expect(configs.map(({ nodeId }) => nodeId)).toEqual(nodes);
});

test("each node has a volume and a port of its own, reached from this machine only", () => {
  const services = nodes.map((node) => block(compose, new RegExp(`^  ${node}:$`)));
  expect(services.map((service) => /volumes: \["(\S+):\/data"\]/.exec(service)?.[1])).toEqual(nodes);
  const ports = services.map((service) => /ports: \["127\.0\.0\.1:(\d+):8080"\]/.exec(service)?.[1]);
  expect(new Set(ports).size).toBe(nodes.length);
  expect(ports).not.toContain(undefined);
});

test("what nodes wait for says when it is ready", () => {
  const needs = [
    ...block(block(compose, /^x-node:/), /^  depends_on:/).matchAll(
      /^ {4}([\w-]+): \{ condition: service_healthy \}$/gm,
    ),
  ].map((match) => match[1]!);
  expect(needs).toEqual(["etcd", "s3"]);
  for (const need of needs) expect(block(compose, new RegExp(`^  ${need}:$`)), need).toContain("healthcheck:");
  expect(dockerfile).toMatch(/^HEALTHCHECK .*\n.*\/health'/m);
});

test("images are pinned by version, and Node is the one that the package was tried with", () => {
  const images = [...`${dockerfile}\n${compose}`.matchAll(/^\s*(?:FROM|image:) (\S+)/gm)].map((match) => match[1]!);
  expect(images.length).toBeGreaterThanOrEqual(5);
  for (const image of images) expect(image).toMatch(/:v?\d+\.\d+\.\d+(-[a-z-]+)?$/);
  const bases = images.filter((image) => image.startsWith("node:"));
  expect(bases).toHaveLength(2);
  for (const base of bases)
    expect(base).toMatch(new RegExp(`^node:${manifest.devDependencies.node.replaceAll(".", "\\.")}-`));
  expect(Number(manifest.devDependencies.node.split(".")[0])).toBeGreaterThanOrEqual(
    Number(/\d+/.exec(manifest.engines.node)![0]),
  );
  expect(compose).toContain(`image: palimpsest:${manifest.version}\n`);
});

test("the image runs as nobody in particular, from what was built, without what only a build needs", () => {
  const [, last = ""] = dockerfile.split(/^FROM .*$/m).slice(1);
  expect([...last.matchAll(/^USER (\S+)$/gm)].map((match) => match[1])).toEqual(["node"]);
  expect(last).not.toMatch(/npm|apt-get/);
  expect(last).toMatch(/^ENTRYPOINT \["node", "dist\/lib\/main\.js"\]$/m);
  expect(dockerfile).toContain("npm ci --omit=dev");
  expect(last).toContain("VOLUME /data");
});

test("no secret stands in any of the files, and none is copied into an image", () => {
  const secrets = Object.values(settings).flatMap(({ variable, kind }) => (kind.secret ? [variable] : []));
  const hidden = [
    ...secrets,
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "ROOT_ACCESS_KEY_ID",
    "ROOT_SECRET_ACCESS_KEY",
    "S3_ACCESS_KEY",
    "S3_SECRET_KEY",
  ];
  for (const name of hidden) {
    expect(variablesIn(dockerfile).has(name), name).toBe(false);
    for (const match of compose.matchAll(new RegExp(`\\b${name}: (.*)$`, "gm")))
      expect(match[1], name).toMatch(/^\$\{[A-Z0-9_]+:\?/);
    for (const match of exampleVariables.matchAll(new RegExp(`^${name}=(.*)$`, "gm"))) expect(match[1], name).toBe("");
  }
  const asked = new Set([...compose.matchAll(/\$\{([A-Z0-9_]+):\?/g)].map((match) => match[1]));
  expect([...exampleVariables.matchAll(/^([A-Z0-9_]+)=/gm)].map((match) => match[1]).toSorted()).toEqual(
    [...asked].toSorted(),
  );
  const [first, ...allowed] = read(".dockerignore")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  expect(first).toBe("*");
  expect(allowed.filter((line) => line.startsWith("!")).toSorted()).toEqual([
    "!.npmrc",
    "!LICENSE",
    "!docs/llms.txt",
    "!gen",
    "!native",
    "!package-lock.json",
    "!package.json",
    "!rolldown.config.ts",
    "!src",
    "!tsconfig.json",
  ]);
});

test("what the image copies is let through to the build", () => {
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap((match) => match[1]!.split(" "));
  const allowed = new Set(
    read(".dockerignore")
      .split("\n")
      .flatMap((line) => (line.startsWith("!") ? [line.slice(1)] : [])),
  );
  expect(copied.length).toBeGreaterThan(5);
  expect(copied.filter((path) => !allowed.has(path))).toEqual([]);
});
