/**
 * `palimpsest connect`, `connections` and `disconnect`: names for the nodes and databases that a person works with.
 *
 * Always true: a token that is kept was read from a file, a variable or a prompt, and is never written out again.
 */
import { Command, InvalidArgumentError, Option } from "commander";
import { CommandFailure } from "../client-session/command-failure.ts";
import { checkCredential, readCredential } from "../client-session/credential.ts";
import { askSecret, canAsk } from "../terminal/prompt.ts";
import { isConnectionName, readConnections, writeConnections, type Connection } from "../client-session/connections.ts";
import { parseAddress, type Bind, type Session, type SessionFlags } from "../client-session/session.ts";

interface ConnectFlags extends SessionFlags {
  readonly askToken?: boolean;
  readonly check?: boolean;
}

export function connectCommands(bind: Bind): readonly Command[] {
  const connect = new Command("connect")
    .description("keep the address, database and token of a node under a name, and use it from now on")
    .argument("<name>", "the name", parseName)
    .addOption(new Option("--ask-token", "type the token, unseen").conflicts(["tokenFile", "keyFile"]))
    .option("--no-check", "do not ask the node whether it answers");
  const list = new Command("connections").description("the connections that are kept");
  const remove = new Command("disconnect").description("forget a connection").argument("<name>", "its name");
  return [
    bind<ConnectFlags>(
      connect,
      "palimpsest connect work --address https://memory.example.com --database acme--alice --ask-token",
      connectTo,
    ),
    bind(list, "palimpsest connections", async (session) => listConnections(session)),
    bind(remove, "palimpsest disconnect work", async ({ around, output }, _, [name]) => {
      const { current, connections } = readConnections(around.env);
      if (!Object.hasOwn(connections, name!)) throw new CommandFailure(3, `there is no connection ${name}`);
      const { [name!]: gone, ...others } = connections;
      void gone;
      await writeConnections(around.env, { current: current === name ? undefined : current, connections: others });
      output.remark(`${name} is forgotten`);
    }),
  ];
}

function parseName(text: string): string {
  if (isConnectionName(text)) return text;
  throw new InvalidArgumentError("It must be 1 to 64 letters, digits, ., _ and -, and begin with a letter or digit.");
}

/** A name that is kept already is used from now on, with what the flags change of it. */
async function connectTo(session: Session, flags: ConnectFlags, [name]: readonly string[]): Promise<void> {
  const { around, output } = session;
  const kept = readConnections(around.env);
  const before = Object.hasOwn(kept.connections, name!) ? kept.connections[name!] : undefined;
  const address = flags.address ?? before?.address;
  if (address === undefined) throw new CommandFailure(2, `there is no connection ${name} yet: give its --address`);
  // A token goes with its address: that of another one is not taken over.
  const old = before?.address === address ? before?.token : undefined;
  const token = flags.askToken ? await askToken(session) : (readCredential(around.env, flags, "token") ?? old);
  const connection: Connection = {
    address: parseAddress(address),
    database: flags.database ?? before?.database,
    token,
  };
  if (flags.check !== false) await session.at(connection).health();
  const connections = { ...kept.connections, [name!]: connection };
  const path = await writeConnections(around.env, { current: name, connections });
  output.remark(`${name} is ${connection.address}, kept in ${path}; commands go there from now on`);
}

async function askToken({ around }: Session): Promise<string> {
  if (!canAsk(around)) throw new CommandFailure(2, "--ask-token needs a terminal; --token-file names a file");
  const token = await askSecret(around, "token: ");
  if (token === "") throw new CommandFailure(2, "no token was typed");
  return checkCredential(token);
}

function listConnections({ around, output }: Session): void {
  const { current, connections } = readConnections(around.env);
  const rows = Object.entries(connections).toSorted(([a], [b]) => (a < b ? -1 : 1));
  if (!output.isForPeople) {
    for (const [name, { address, database, token }] of rows)
      output.json({ name, address, database, has_token: token !== undefined, current: name === current });
    return;
  }
  if (rows.length === 0) return output.remark("none is kept; palimpsest connect makes one");
  output.table(
    [
      { title: "" },
      { title: "NAME", paint: output.style.named },
      { title: "ADDRESS", loose: true },
      { title: "DATABASE", loose: true },
      { title: "TOKEN" },
    ],
    rows.map(([name, { address, database, token }]) => [
      name === current ? "*" : "",
      name,
      address,
      database ?? "",
      token === undefined ? "" : "kept",
    ]),
  );
}
