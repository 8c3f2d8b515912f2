/** A collector of the test's own that takes spans by OTLP over HTTP in JSON, and remembers everything it was sent. */
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  /** As OTLP numbers them: 1 internal, 2 server, 3 client. */
  readonly kind: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** 0 unset, 2 error. */
  readonly status: number;
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface TraceCollector {
  readonly address: string;
  readonly spans: CollectedSpan[];
  readonly paths: string[];
  readonly headers: IncomingHttpHeaders[];
  /** Every body as it came. */
  readonly bodies: string[];
  /** What it answers from now on; 0 is nothing at all. */
  status: number;
}

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

function toAttributes(list: readonly Attribute[] = []): Record<string, unknown> {
  return Object.fromEntries(list.map(({ key, value }) => [key, Object.values(value)[0]]));
}

function parseSpans(body: string): CollectedSpan[] {
  return JSON.parse(body).resourceSpans.flatMap(({ resource, scopeSpans }: any) =>
    scopeSpans.flatMap(({ spans }: any) =>
      spans.map(({ traceId, spanId, parentSpanId, name, kind, attributes, status }: any) => ({
        traceId,
        spanId,
        parentSpanId: parentSpanId || undefined,
        name,
        kind,
        attributes: toAttributes(attributes),
        status: status?.code ?? 0,
        resource: toAttributes(resource.attributes),
      })),
    ),
  );
}

/** Starts a collector that ends with the test. */
export async function startCollector(): Promise<TraceCollector> {
  const spans: CollectedSpan[] = [];
  const paths: string[] = [];
  const headers: IncomingHttpHeaders[] = [];
  const bodies: string[] = [];
  const collector = { status: 200 };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks).toString();
      paths.push(request.url ?? "");
      headers.push(request.headers);
      bodies.push(body);
      if (collector.status === 200) spans.push(...parseSpans(body));
      if (collector.status !== 0)
        response.writeHead(collector.status, { "content-type": "application/json" }).end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return Object.assign(collector, {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    paths,
    headers,
    bodies,
  });
}
