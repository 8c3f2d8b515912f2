/** Plain connections to a listener, and the bytes that come back. */
import * as net from "node:net";
import { onTestFinished } from "vitest";

export function dial(port: number): net.Socket {
  const socket = net.connect(port, "127.0.0.1");
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** All that a listener says to these bytes, until it ends the connection. */
export async function exchange(port: number, bytes: string): Promise<string> {
  const socket = net.connect(port, "127.0.0.1");
  socket.write(bytes);
  let text = "";
  for await (const chunk of socket) text += String(chunk);
  return text;
}
