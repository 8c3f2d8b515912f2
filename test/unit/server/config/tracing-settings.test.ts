/** What the variables of OpenTelemetry mean to a node. */
import { expect, test } from "vitest";
import { readTracing, type TracingSettings } from "../../../../src/server/config/tracing-settings.ts";

function read(variables: Record<string, string>): {
  readonly settings: TracingSettings | undefined;
  readonly problems: string[];
  readonly warnings: string[];
} {
  const problems: string[] = [];
  const warnings: string[] = [];
  return { settings: readTracing(variables, problems, warnings), problems, warnings };
}

const always = { followsCaller: true, ratio: 1 };

test.each<[Record<string, string>, string]>([
  [{ OTEL_TRACES_EXPORTER: "otlp" }, "http://localhost:4318/v1/traces"],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318" }, "http://c:4318/v1/traces"],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "https://c/base/" }, "https://c/base/v1/traces"],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://c/own" }, "http://c/own"],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://a", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://b/x" }, "http://b/x"],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://a", OTEL_SDK_DISABLED: "no" }, "http://a/v1/traces"],
])("%j sends to %s", (variables, address) => {
  expect(read(variables)).toEqual({
    settings: { address, serviceName: undefined, sampling: always },
    problems: [],
    warnings: [],
  });
});

test.each<Record<string, string>>([
  {},
  { OTEL_SERVICE_NAME: "x" },
  { OTEL_TRACES_EXPORTER: "" },
  { OTEL_TRACES_EXPORTER: "none", OTEL_EXPORTER_OTLP_ENDPOINT: "http://a" },
  { OTEL_SDK_DISABLED: "TRUE", OTEL_EXPORTER_OTLP_ENDPOINT: "http://a" },
  { OTEL_EXPORTER_OTLP_ENDPOINT: "" },
])("%j sends nothing, and nothing is wrong", (variables) => {
  expect(read(variables)).toEqual({ settings: undefined, problems: [], warnings: [] });
});

test("what this node cannot do is said", () => {
  expect(read({ OTEL_TRACES_EXPORTER: "zipkin", OTEL_EXPORTER_OTLP_ENDPOINT: "http://a" })).toMatchObject({
    settings: undefined,
    warnings: [expect.stringContaining("OTEL_TRACES_EXPORTER")],
  });
  expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://a", OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" })).toMatchObject({
    settings: { sampling: always },
    warnings: [expect.stringContaining("http/json")],
  });
  expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://a", OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" }).warnings).toEqual(
    [],
  );
});

test.each(["a:4317", "ftp://a", "not an address", `http://${"a".repeat(10_000)}`])(
  "the address %s is refused, and not quoted",
  (address) => {
    for (const variable of ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]) {
      const { settings, problems } = read({ [variable]: address });
      expect([settings, problems]).toEqual([undefined, [`${variable} must be an http or https address`]]);
    }
  },
);

test.each<[string, string | undefined, boolean, number]>([
  ["always_on", undefined, false, 1],
  ["always_off", undefined, false, 0],
  ["traceidratio", "0.25", false, 0.25],
  ["traceidratio", undefined, false, 1],
  ["parentbased_always_on", undefined, true, 1],
  ["parentbased_always_off", "0.5", true, 0],
  ["parentbased_traceidratio", "0.5", true, 0.5],
])("the sampler %s with %s", (sampler, argument, followsCaller, ratio) => {
  const variables = {
    OTEL_TRACES_EXPORTER: "otlp",
    OTEL_TRACES_SAMPLER: sampler,
    ...(argument !== undefined && { OTEL_TRACES_SAMPLER_ARG: argument }),
  };
  expect(read(variables).settings?.sampling).toEqual({ followsCaller, ratio });
});

test.each([
  ["sometimes", "1"],
  ["traceidratio", "2"],
  ["traceidratio", "x"],
  ["traceidratio", "-0.1"],
])("the sampler %s with %s is refused", (sampler, argument) => {
  const { settings, problems } = read({
    OTEL_TRACES_EXPORTER: "otlp",
    OTEL_TRACES_SAMPLER: sampler,
    OTEL_TRACES_SAMPLER_ARG: argument,
  });
  expect([settings, problems]).toEqual([undefined, [expect.stringContaining("OTEL_TRACES_SAMPLER")]]);
});
