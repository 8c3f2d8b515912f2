/**
 * Whether and where spans are sent, read from the variables that OpenTelemetry's programs share.
 *
 * Pure. Only what this node must know before it loads anything of OpenTelemetry is read here; headers, compression,
 * certificates and resource attributes are read by its own packages.
 */
import { limits } from "../../base/limits.ts";

/** Which of the traces that begin here, or come from a caller, are recorded. */
export interface Sampling {
  /** Whether a caller's decision counts. */
  readonly followsCaller: boolean;
  /** The share of the traces that are decided about here. */
  readonly ratio: number;
}

/** Where spans go. */
export interface TracingSettings {
  /** Gets spans by OTLP over HTTP. */
  readonly address: string;
  readonly serviceName: string | undefined;
  readonly sampling: Sampling;
}

type Variables = Readonly<Record<string, string | undefined>>;

const addressDefault = "http://localhost:4318";
const samplerDefault = "parentbased_always_on";

/**
 * The settings, or undefined when nothing is to be sent. What is wrong goes to `problems`, what has no effect to
 * `warnings`.
 */
export function readTracing(variables: Variables, problems: string[], warnings: string[]): TracingSettings | undefined {
  const getVariable = (name: string): string | undefined => variables[name]?.trim() || undefined;
  if (getVariable("OTEL_SDK_DISABLED")?.toLowerCase() === "true") return undefined;
  const exporter = getVariable("OTEL_TRACES_EXPORTER");
  const base = getVariable("OTEL_EXPORTER_OTLP_ENDPOINT");
  const own = getVariable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  if (exporter === "none" || (exporter === undefined && base === undefined && own === undefined)) return undefined;
  if (exporter !== undefined && exporter !== "otlp") {
    warnings.push("OTEL_TRACES_EXPORTER is neither otlp nor none: no traces are sent");
    return undefined;
  }
  const protocol = getVariable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") ?? getVariable("OTEL_EXPORTER_OTLP_PROTOCOL");
  if (protocol !== undefined && protocol !== "http/json")
    warnings.push("OTEL_EXPORTER_OTLP_PROTOCOL is ignored: traces are sent as http/json");
  const name = own === undefined ? "OTEL_EXPORTER_OTLP_ENDPOINT" : "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
  const address = own === undefined ? below(base ?? addressDefault) : own;
  if (address.length > limits.settingTextCharsMax || !/^https?:$/.test(URL.parse(address)?.protocol ?? "")) {
    problems.push(`${name} must be an http or https address`);
    return undefined;
  }
  const sampling = parseSampling(
    getVariable("OTEL_TRACES_SAMPLER") ?? samplerDefault,
    getVariable("OTEL_TRACES_SAMPLER_ARG"),
  );
  if (!sampling)
    problems.push(
      "OTEL_TRACES_SAMPLER must be always_on, always_off or traceidratio, or one of these after parentbased_, " +
        "with a ratio from 0 to 1 in OTEL_TRACES_SAMPLER_ARG",
    );
  return (
    sampling &&
    Object.freeze({ address, serviceName: getVariable("OTEL_SERVICE_NAME"), sampling: Object.freeze(sampling) })
  );
}

/** The endpoint of traces below the one of all signals. */
function below(base: string): string {
  return `${base.replace(/\/+$/, "")}/v1/traces`;
}

function parseSampling(sampler: string, argument: string | undefined): Sampling | undefined {
  const [, parent, decision] = /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(sampler) ?? [];
  const ratio = decision === "always_off" ? 0 : decision === "always_on" ? 1 : Number(argument ?? 1);
  if (decision === undefined || !(ratio >= 0 && ratio <= 1)) return undefined;
  return { followsCaller: parent !== undefined, ratio };
}
