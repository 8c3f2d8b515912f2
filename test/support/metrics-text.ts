/** Reads the text form of Prometheus as strictly as a scraper would, and stricter: what is odd throws. */

export interface MetricFamily {
  readonly type: string;
  readonly help: string;
  readonly samples: readonly MetricSample[];
}

interface MetricSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const sampleLine = /^([a-z_]+)(?:\{((?:[a-z]+="[^"\\\n]*",?)+)\})? (-?[0-9.]+(?:e[+-]?\d+)?|NaN|[+-]Inf)$/;

/** The families of the text by name. */
export function readMetrics(text: string): ReadonlyMap<string, MetricFamily> {
  const families = new Map<string, MetricFamily & { samples: MetricSample[] }>();
  let current: { name: string; family: MetricFamily & { samples: MetricSample[] } } | undefined;
  let help = "";
  if (!text.endsWith("\n")) throw new Error("the text does not end with a line feed");
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const [, kind, name, rest] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (kind === "HELP") help = rest!;
    else if (kind === "TYPE") {
      if (families.has(name!)) throw new Error(`${name} is there twice`);
      current = { name: name!, family: { type: rest!, help, samples: [] } };
      families.set(name!, current.family);
    } else {
      const sample = parseSample(line);
      const ending = sample.name.slice(current?.name.length);
      const fits =
        current &&
        sample.name.startsWith(current.name) &&
        (ending === "" || (current.family.type === "histogram" && ["_bucket", "_sum", "_count"].includes(ending)));
      if (!fits) throw new Error(`${line} stands below another metric`);
      current!.family.samples.push(sample);
    }
  }
  return families;
}

function parseSample(line: string): MetricSample {
  const [, name, labels = "", value] = sampleLine.exec(line) ?? [];
  if (name === undefined || value === undefined) throw new Error(`not a sample: ${line}`);
  const read = Object.fromEntries([...labels.matchAll(/([a-z]+)="([^"]*)"/g)].map((match) => [match[1]!, match[2]!]));
  return { name, labels: read, value: Number(value.replace("Inf", "Infinity")) };
}

/** The sum of the samples whose labels agree with the given ones. */
export function sumSamples(
  families: ReadonlyMap<string, MetricFamily>,
  name: string,
  labels: Readonly<Record<string, string>> = {},
  part = name,
): number {
  const family = families.get(name);
  if (!family) throw new Error(`there is no metric ${name}`);
  const fits = (sample: MetricSample): boolean =>
    sample.name === part && Object.entries(labels).every(([label, value]) => sample.labels[label] === value);
  return family.samples.filter(fits).reduce((sum, { value }) => sum + value, 0);
}
