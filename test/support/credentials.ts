/** What a test or bench needs to run a node with authentication on. */

export const platformKey = "platform-key-of-the-tests";

/** What turns authentication on. */
export const guardedVariables = { SERVICE_AUTH: "on", SERVICE_PLATFORM_KEY: platformKey, SERVICE_SINGLE_NODE: "1" };

/** The header that carries a credential. */
export function bearer(credential: string | undefined): Record<string, string> {
  return credential === undefined ? {} : { authorization: `Bearer ${credential}` };
}
