/**
 * One metric with its samples, in the shape in which a registry of prom-client asks for it.
 *
 * Always true: names begin with `palimpsest_`; durations are in seconds, as Prometheus has them. Must not know: what is
 * measured.
 */
import type { HistogramCounts } from "../../base/collections/histogram.ts";

type Labels = Readonly<Record<string, string>>;

/** One value of a metric. */
export interface Sample {
  readonly labels: Labels;
  readonly value: number;
  /** With the ending that tells a histogram's parts apart. */
  readonly metricName?: string;
}

/** One metric with its samples, as a registry asks for it. */
export class Family {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly values: readonly Sample[];

  /** `name` is without the prefix that all our metrics have. */
  constructor(type: Family["type"], name: string, help: string, values: readonly Sample[]) {
    this.type = type;
    this.name = `palimpsest_${name}`;
    this.help = help;
    this.values = values;
  }

  /** What a registry takes. */
  async get(): Promise<Pick<Family, "name" | "help" | "type" | "values">> {
    return this;
  }
}

/** The sample of a metric that has no labels. */
export function single(value: number): readonly Sample[] {
  return [{ labels: {}, value }];
}

/** The samples of a histogram, in seconds. */
export function histogram(name: string, labels: Labels, { boundsMs, counts, sumMs }: HistogramCounts): Sample[] {
  let count = 0;
  const buckets = counts.map((inClass, index): Sample => {
    count += inClass;
    const boundMs = boundsMs[index];
    return {
      metricName: `palimpsest_${name}_bucket`,
      labels: { ...labels, le: boundMs === undefined ? "+Inf" : String(boundMs / 1_000) },
      value: count,
    };
  });
  return [
    ...buckets,
    { metricName: `palimpsest_${name}_sum`, labels, value: sumMs / 1_000 },
    { metricName: `palimpsest_${name}_count`, labels, value: count },
  ];
}
