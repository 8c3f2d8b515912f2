/**
 * `palimpsest token`: tokens are minted and revoked.
 *
 * Always true: a minted token is written to standard output alone, once, and nowhere else.
 */
import { Command, Option } from "commander";
import type { TokenResponse } from "../../../clients/typescript/src/index.ts";
import { toWire } from "../../../clients/typescript/src/codec.ts";
import { CommandFailure } from "../client-session/command-failure.ts";
import { parseCount, type Bind, type SessionFlags } from "../client-session/session.ts";

interface OfFlags extends SessionFlags {
  readonly namespace?: string;
}

interface MintFlags extends OfFlags {
  readonly scope: "read" | "write" | "admin";
  readonly expiresIn?: number;
}

export function tokenCommand(bind: Bind): Command {
  const ofNamespace = (command: Command): Command =>
    command.addOption(
      new Option("--namespace <name>", "for every profile of a namespace, instead of one --database").conflicts(
        "database",
      ),
    );
  const mint = ofNamespace(new Command("mint").description("mint a token and print it"))
    .addOption(
      new Option("--scope <scope>", "what it allows").choices(["read", "write", "admin"]).makeOptionMandatory(),
    )
    .addOption(new Option("--expires-in <seconds>", "its lifetime").argParser(parseCount));
  const revoke = ofNamespace(new Command("revoke").description("revoke a token of a database or a namespace")).argument(
    "<jti>",
    "its id, the claim jti",
  );
  return new Command("token")
    .alias("tokens")
    .description("tokens of a running node")
    .addCommand(
      bind<MintFlags>(
        mint,
        "palimpsest token mint --database acme--alice --scope write",
        async ({ client, output }, { namespace, database, scope, expiresIn }) => {
          const request = { scope, expiresIn };
          let minted: TokenResponse;
          if (namespace !== undefined) minted = await client.namespace(namespace).mintToken(request);
          else if (database !== undefined) minted = await client.mintToken(database, request);
          else throw new CommandFailure(2, "give --database or --namespace");
          if (output.asksForJson) output.json(toWire(minted, "TokenResponse"));
          else output.lines([minted.token]);
        },
        { prefers: "key" },
      ),
    )
    .addCommand(
      bind<OfFlags>(
        revoke,
        "palimpsest token revoke 01J9ZQ3Y4T5V6W7X8Y9Z0A1B2C --database acme--alice",
        async ({ client, output }, { namespace, database }, [jti]) => {
          if (namespace !== undefined) await client.namespace(namespace).revokeToken(jti!);
          else if (database !== undefined) await client.revokeToken(database, jti!);
          else throw new CommandFailure(2, "give --database or --namespace");
          output.remark("it is revoked");
        },
        { prefers: "key" },
      ),
    );
}
