/**
 * What the referee of the protocol asks a server for: tools, prompts and resources of fixed names, in tables.
 *
 * None of it is the product's. It stands behind the product's own door, so that what the referee sees of HTTP, of the
 * two revisions and of streams is what every client sees.
 */
import { setTimeout as wait } from "node:timers/promises";
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  createRequestStateCodec,
  inputRequired,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  Server,
  type ServerContext,
  type ServerEventBus,
} from "@modelcontextprotocol/server";

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const wav = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

const text = (told: string): object => ({ type: "text", text: told });
const image = { type: "image", data: png, mimeType: "image/png" };
const saying = (...content: object[]): any => ({ content });
const form = (message: string, name: string, type: string): any =>
  inputRequired.elicit({
    message,
    requestedSchema: { type: "object", properties: { [name]: { type } as any }, required: [name] },
  });
const sampling = (question: string, maxTokens: number): any =>
  inputRequired.createMessage({ messages: [{ role: "user", content: { type: "text", text: question } }], maxTokens });

const states = createRequestStateCodec<{ readonly round: number }>({ key: "k".repeat(32) });

/** What the client of a request can do, as it says with each. */
function capabilitiesOf({ envelope }: ServerContext["mcpReq"]): ClientCapabilities {
  return (envelope as Record<string, ClientCapabilities> | undefined)?.[CLIENT_CAPABILITIES_META_KEY] ?? {};
}

type Run = (context: ServerContext, given: any) => any;

/** Asks for a name until it has one. */
const askName: Run = ({ mcpReq }) => {
  const given = acceptedContent(mcpReq.inputResponses, "user_name");
  if (typeof given?.["name"] === "string") return saying(text(`Hello, ${given["name"]}!`));
  return inputRequired({ inputRequests: { user_name: form("What is your name?", "name", "string") } });
};

/** Asks `rounds` times, each with a state of its own. */
const ask =
  (rounds: readonly Readonly<Record<string, unknown>>[], done: string): Run =>
  async ({ mcpReq }) => {
    const state = mcpReq.requestState<{ readonly round: number }>();
    const round = mcpReq.inputResponses === undefined ? 0 : (state?.round ?? 0);
    if (round === rounds.length) return saying(text(done));
    const requestState = await states.mint({ round: round + 1 });
    return inputRequired({ inputRequests: rounds[round] as any, requestState });
  };

const confirm = { confirm: form("Please confirm", "ok", "boolean") };

const tools: Readonly<Record<string, Run>> = {
  test_simple_text: () => saying(text("This is a simple text response for testing.")),
  test_image_content: () => saying(image),
  test_audio_content: () => saying({ type: "audio", data: wav, mimeType: "audio/wav" }),
  test_embedded_resource: () =>
    saying({
      type: "resource",
      resource: {
        uri: "test://embedded-resource",
        mimeType: "text/plain",
        text: "This is an embedded resource content.",
      },
    }),
  test_multiple_content_types: () =>
    saying(text("Multiple content types test:"), image, {
      type: "resource",
      resource: {
        uri: "test://mixed-content-resource",
        mimeType: "application/json",
        text: JSON.stringify({ test: "data", value: 123 }),
      },
    }),
  test_error_handling: () => ({
    isError: true,
    ...saying(text("This tool intentionally returns an error for testing")),
  }),
  test_tool_with_logging: async ({ mcpReq }) => {
    for (const told of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
      await mcpReq.log("info", told);
      await wait(50);
    }
    return saying(text("logged"));
  },
  test_logging_tool: async ({ mcpReq }) => {
    await mcpReq.log("info", "told to those who ask");
    return saying(text("logged"));
  },
  test_tool_with_progress: async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined)
        await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      await wait(50);
    }
    return saying(text("done"));
  },
  test_sampling: (_, { prompt }) => inputRequired({ inputRequests: { answer: sampling(prompt, 100) } }),
  test_elicitation: (_, { message }) =>
    inputRequired({ inputRequests: { answer: form(message, "response", "string") } }),
  test_streaming_elicitation: askName,
  test_missing_capability: ({ mcpReq }) => {
    if (capabilitiesOf(mcpReq).sampling === undefined)
      throw new ProtocolError(ProtocolErrorCode.MissingRequiredClientCapability, "sampling is needed", {
        requiredCapabilities: { sampling: {} },
      });
    return saying(text("the client can sample"));
  },
  test_input_required_result_elicitation: askName,
  test_input_required_result_sampling: ({ mcpReq }) =>
    mcpReq.inputResponses === undefined
      ? inputRequired({ inputRequests: { capital_question: sampling("What is the capital of France?", 100) } })
      : saying(text(JSON.stringify(mcpReq.inputResponses["capital_question"]))),
  test_input_required_result_list_roots: ({ mcpReq }) =>
    mcpReq.inputResponses === undefined
      ? inputRequired({ inputRequests: { client_roots: inputRequired.listRoots() } })
      : saying(text(JSON.stringify(mcpReq.inputResponses["client_roots"]))),
  test_input_required_result_request_state: ask([confirm], "state-ok"),
  test_input_required_result_tampered_state: ask([confirm], "state-ok"),
  test_input_required_result_multiple_inputs: ask(
    [
      {
        user_name: form("What is your name?", "name", "string"),
        greeting: sampling("Generate a greeting", 50),
        client_roots: inputRequired.listRoots(),
      },
    ],
    "all three were given",
  ),
  test_input_required_result_multi_round: ask(
    [
      { step1: form("Step 1: What is your name?", "name", "string") },
      { step2: form("Step 2: What is your favorite color?", "color", "string") },
    ],
    "both steps were given",
  ),
  test_input_required_result_capabilities: ({ mcpReq }) => {
    const { sampling: samples, elicitation } = capabilitiesOf(mcpReq);
    const inputRequests = {
      ...(samples && { greeting: sampling("Generate a greeting", 50) }),
      ...(elicitation && { user_name: form("What is your name?", "name", "string") }),
    };
    return inputRequired({ inputRequests });
  },
};

const prompts: Readonly<Record<string, { readonly takes: readonly string[]; readonly run: Run }>> = {
  test_simple_prompt: { takes: [], run: () => asking(text("This is a simple prompt for testing.")) },
  test_prompt_with_arguments: {
    takes: ["arg1", "arg2"],
    run: (_, { arg1, arg2 }) => asking(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  },
  test_prompt_with_embedded_resource: {
    takes: ["resourceUri"],
    run: (_, { resourceUri: uri }) =>
      asking(
        { type: "resource", resource: { uri, mimeType: "text/plain", text: "Embedded resource content for testing." } },
        text("Please process the embedded resource above."),
      ),
  },
  test_prompt_with_image: { takes: [], run: () => asking(image, text("Please analyze the image above.")) },
  test_input_required_result_prompt: {
    takes: [],
    run: ({ mcpReq }) =>
      mcpReq.inputResponses === undefined
        ? inputRequired({
            inputRequests: { user_context: form("What context should the prompt use?", "context", "string") },
          })
        : asking(text("with a context")),
  },
};

function asking(...contents: object[]): any {
  return { messages: contents.map((content) => ({ role: "user", content })) };
}

/** Gives a resource's content, or undefined where there is none. */
function readFixture(uri: string): object | undefined {
  if (uri === "test://static-text")
    return { mimeType: "text/plain", text: "This is the content of the static text resource." };
  if (uri === "test://static-binary") return { mimeType: "image/png", blob: png };
  if (uri === "test://watched-resource") return { mimeType: "text/plain", text: "watched" };
  const [, id] = /^test:\/\/template\/([^/]+)\/data$/.exec(uri) ?? [];
  if (id === undefined) return undefined;
  return {
    mimeType: "application/json",
    text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }),
  };
}

const resources = ["test://static-text", "test://static-binary", "test://watched-resource"];

/** Makes a server of the fixtures; those that change what it offers tell `bus`. */
export function createFixtureServer(bus: ServerEventBus): Server {
  const server = new Server(
    { name: "fixtures", version: "1.0.0" },
    {
      capabilities: {
        tools: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        prompts: { listChanged: true },
        logging: {},
        completions: {},
      },
      requestState: { verify: states.verify },
    },
  );
  const changes: Readonly<Record<string, Run>> = {
    test_trigger_tool_change: () => (bus.publish({ kind: "tools_list_changed" }), saying(text("told"))),
    test_trigger_prompt_change: () => (bus.publish({ kind: "prompts_list_changed" }), saying(text("told"))),
  };
  const all = { ...tools, ...changes };
  server.setRequestHandler("tools/list", () => ({
    tools: Object.keys(all).map((name) => ({ name, description: `Fixture ${name}`, inputSchema: { type: "object" } })),
  }));
  server.setRequestHandler("tools/call", ({ params: { name, arguments: given } }, context) =>
    pick(all, name)(context, given ?? {}),
  );
  server.setRequestHandler("prompts/list", () => ({
    prompts: Object.entries(prompts).map(([name, { takes }]) => ({
      name,
      description: `Fixture ${name}`,
      arguments: takes.map((argument) => ({ name: argument, required: true })),
    })),
  }));
  server.setRequestHandler("prompts/get", ({ params: { name, arguments: given } }, context) =>
    pick(prompts, name).run(context, given ?? {}),
  );
  server.setRequestHandler("completion/complete", () => ({ completion: { values: [], total: 0, hasMore: false } }));
  server.setRequestHandler("resources/list", () => ({
    resources: resources.map((uri) => ({ uri, name: uri, description: `Fixture ${uri}` })),
  }));
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", description: "A template" }],
  }));
  server.setRequestHandler("resources/read", ({ params: { uri } }) => {
    const found = readFixture(uri);
    if (!found) throw new ResourceNotFoundError(uri);
    return { contents: [{ uri, ...found } as any] };
  });
  return server;
}

function pick<Value>(table: Readonly<Record<string, Value>>, name: string): Value {
  const found = table[name];
  if (found === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `no fixture is called ${name}`);
  return found;
}
