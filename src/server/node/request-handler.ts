/**
 * Every wire behind one request handler: MCP, gRPC, gRPC-Web, Connect, health, reflection, then REST and the pages.
 */
import type { DescService } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import { file_google_rpc_error_details } from "../../../gen/google/rpc/error_details_pb.ts";
import { Health as HealthService } from "../../../gen/grpc/health/v1/health_pb.ts";
import type { Log } from "../../base/log.ts";
import type { World } from "../../base/world.ts";
import type { TokenIdentity } from "../../control/access/identity.ts";
import type { Dispatch } from "../../service/call/call.ts";
import { allEndpoints, type AnyEndpoint, publicServices } from "../../service/call/methods.ts";
import { Callers, type Identify } from "../wire/callers.ts";
import { BodyRoom, Discards } from "../wire/body.ts";
import { createConnect } from "../rpc/connect.ts";
import { parseBearer, sendRefusal } from "../wire/call-headers.ts";
import { refusalFor } from "../wire/refusal.ts";
import { HostAndOriginCheck } from "../wire/host-and-origin.ts";
import { Health, type Readiness } from "../observability/health.ts";
import type { RequestHandler } from "../wire/listener.ts";
import type { NodeDoor } from "../cluster/node-door.ts";
import { addReflection } from "../rpc/reflection.ts";
import { createRest, type Page } from "../rest/rest.ts";
import { createMcpDoor } from "../mcp/mcp-door.ts";
import type { OpenProtocol } from "../mcp/protocol.ts";
import { toConnectError, refuseRequest } from "../rpc/rpc-protocols.ts";
import { RequestMetrics } from "../wire/request-metrics.ts";

/** Lets the bearer of a credential in, or throws a ServiceError. */
type Admit = (credential: string | undefined) => void | Promise<void>;

/** What the doors lead to, and which callers they let in. */
export interface DoorsOptions {
  readonly dispatch: Dispatch;
  readonly isReady: () => Readiness;
  /** Finds out what `isReady` tells of, where that takes asking others. */
  readonly look?: (() => Promise<void>) | undefined;
  /**
   * Lets the bearer of a token see readiness and reflection, or throws a ServiceError; asked at every request. Absent,
   * as on a node without authentication or on the operators' own port, every caller may.
   */
  readonly admitOperator?: Admit | undefined;
  /** Tells who bears a credential, or refuses the bearer before a body is read; absent where authentication is off. */
  readonly identify?: Identify | undefined;
  /** Whether a token that was good is to be asked about again before it expires. */
  readonly isRevoked?: ((identity: TokenIdentity) => boolean) | undefined;
  readonly world: World;
  readonly log: Log;
  /** The cap of bodies that carry data (`SERVICE_MAX_BODY_BYTES`). */
  readonly dataBodyBytesMax: number;
  /** `{db}.{databaseHostSuffix}` is the address of one database (`SERVICE_DB_HOST_SUFFIX`). */
  readonly databaseHostSuffix: string;
  /**
   * Further names that this node is asked by; a node without authentication answers to no others
   * (server/wire/host-and-origin).
   */
  readonly hostNames?: readonly string[];
  /** Origins whose pages may call (`SERVICE_ALLOWED_ORIGINS`). */
  readonly allowedOrigins?: readonly string[];
  /** The room of all bodies, where several doors share it. */
  readonly room?: BodyRoom;
  /** Pages for everyone beside `/health`, by path. */
  readonly pages?: ReadonlyMap<string, Page>;
  /** Pages for the callers that `admitOperator` lets in, beside `/health/ready`, by path. */
  readonly operatorPages?: ReadonlyMap<string, Page>;
  /** Serves the other nodes, where there are any. Its service is neither listed nor reflected. */
  readonly nodeDoor?: NodeDoor | undefined;
  /** Sees every request for an endpoint; absent where there are no metrics. */
  readonly requestMetrics?: RequestMetrics;
  /** Loads what is offered at /mcp; the node's own tools unless a test brings others. */
  readonly openProtocol?: (() => Promise<OpenProtocol>) | undefined;
  /** All endpoints unless a test wants fewer. */
  readonly endpoints?: readonly AnyEndpoint[];
}

/** The handler of all requests, and the switch that tells the world that this node is leaving. */
export interface Doors extends RequestHandler {
  /**
   * Readiness turns to no, watches, reflection streams and those of other nodes end. Call it before `Listener.close`.
   */
  drain(): void;
}

/** What every caller may list and reflect on. */
const listed: readonly DescService[] = [...publicServices, HealthService];

/** Makes all doors. */
export function createDoors(options: DoorsOptions): Doors {
  const { dispatch, world, log, dataBodyBytesMax, databaseHostSuffix } = options;
  const {
    endpoints = allEndpoints,
    identify,
    isRevoked,
    nodeDoor,
    requestMetrics = new RequestMetrics({ world, log }),
    room = new BodyRoom(),
  } = options;
  const gate = new HostAndOriginCheck({
    hasAuthentication: identify !== undefined,
    databaseHostSuffix,
    hostNames: options.hostNames ?? [],
    allowedOrigins: options.allowedOrigins ?? [],
  });
  const callers = identify && new Callers(identify, world, isRevoked);
  const admitOperator = options.admitOperator ?? (() => {});
  const health = new Health({
    isReady: options.isReady,
    look: options.look,
    services: listed.map((service) => service.typeName),
    world,
  });
  const discards = new Discards(world);
  const shared = {
    endpoints,
    dispatch,
    callers,
    room,
    discards,
    dataBodyBytesMax,
    databaseHostSuffix,
    requestMetrics,
    leaving: health.draining,
    world,
    log,
  };
  const onCall = createConnect({
    ...shared,
    addServices: (router) => {
      health.addTo(router);
      addReflection(router, {
        services: listed,
        files: [file_google_rpc_error_details],
        admit: reflectionFor(admitOperator, world, log),
        draining: health.draining,
      });
      nodeDoor?.addTo(router);
    },
    fallback: createRest({ ...shared, pages: buildPages(options, health, admitOperator) }),
  });
  const drain = (): void => {
    health.drain();
    nodeDoor?.drain();
  };
  const onVisit = createMcpDoor({ ...shared, gate, openProtocol: options.openProtocol }, onCall);
  return Object.assign(behindGate(onVisit, { gate, discards, nodeDoor }), { drain });
}

/** All pages by path: those for everyone, and those for the callers that `admitOperator` lets in. */
function buildPages(
  { pages, operatorPages }: DoorsOptions,
  health: Health,
  admitOperator: Admit,
): ReadonlyMap<string, Page> {
  const guarded = [...(operatorPages ?? [])].map(([path, page]): [string, Page] => [
    path,
    onlyFor(admitOperator, page),
  ]);
  return new Map([...health.pages(admitOperator), ...(pages ?? []), ...guarded]);
}

/** Who may see reflection, as its wire asks. */
function reflectionFor(admitOperator: Admit, world: World, log: Log): (context: HandlerContext) => Promise<void> {
  return async (context) => {
    try {
      await admitOperator(parseBearer(context.requestHeader.get("authorization") ?? undefined));
    } catch (error) {
      throw toConnectError(refusalFor(error, "reflection", world, log));
    }
  };
}

/** What comes before all calls: whether the request may come by this name and from this page. */
interface Entry {
  readonly gate: HostAndOriginCheck;
  readonly discards: Discards;
  readonly nodeDoor: NodeDoor | undefined;
}

/** The handler for those requests only that may come in. */
function behindGate(onCall: RequestHandler, { gate, discards, nodeDoor }: Entry): RequestHandler {
  return (request, response) => {
    // Other nodes call by whatever name they know, and show the cluster's key; a caller without it is refused in plain
    // HTTP.
    const isNode = nodeDoor?.owns(request) ?? false;
    const refusal = isNode ? nodeDoor!.findRefusal(request) : gate.findRefusal(request);
    if (refusal) {
      discards.takeAfter(request, response);
      return isNode ? sendRefusal(refusal, response) : refuseRequest(refusal, request, response);
    }
    if (!gate.admitPage(request, response)) onCall(request, response);
  };
}

/** The page, for the callers that `admit` lets in. */
function onlyFor(admit: Admit, page: Page): Page {
  return {
    answer: async (credential) => {
      await admit(credential);
      return page.answer(credential);
    },
  };
}
