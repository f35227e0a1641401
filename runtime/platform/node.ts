/** Node's server, and the faults and limits of Node that the runtime works around, with the version in which each was seen. */
import { isObject } from "../protocol/guards.ts"
import { currentRuntime } from "./runtime.js"
import { type Address, type Handler, type Listener, type OnLost, throttled } from "./server.ts"

/** How long a connection may be silent between two requests, in milliseconds: longer than a proxy keeps one for its next request. */
const KEEP_ALIVE_MS = 120_000

/** How long the head of a request may take to arrive, in milliseconds, and how often that is checked. */
const HEAD_MS = 10_000

/** A request whose Host makes no URL, as the servers of Bun and Deno pass it on. The adapter makes no request of it. */
const withoutAddress = (): Request =>
  Object.defineProperty(new Request("http://localhost"), "url", { value: "http://:/" })

/** Starts Node's server, through an adapter to requests and responses. Fails with Node's error where the address cannot be had. */
export const serveOnNode = async ({ host, port }: Address, handler: Handler, onLost: OnLost): Promise<Listener> => {
  const { createServer } = await import("node:http")
  const { getRequestListener, RequestError } = await import("@hono/node-server")
  // The global Request and Response stay as they are: they belong to the application.
  const answer = getRequestListener((request) => handler(request), {
    overrideGlobalObjects: false,
    errorHandler: (cause) => {
      if (cause instanceof RequestError) return handler(withoutAddress())
      throw cause
    },
  })
  const options = { keepAliveTimeout: KEEP_ALIVE_MS, headersTimeout: HEAD_MS, connectionsCheckingInterval: HEAD_MS }
  const server = createServer(options, (incoming, outgoing) => {
    // A server that closes keeps the connections of its running requests, also after their answers (Node 24.21).
    outgoing.once("close", () => {
      if (!server.listening) server.closeIdleConnections()
    })
    void answer(incoming, outgoing)
  })
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject)
    server.listen(port, host, () => {
      server.off("error", reject)
      resolve()
    })
  })
  // Without a listener, a connection that cannot be accepted would end the process.
  server.on("error", throttled(onLost))
  const bound = server.address()
  return {
    port: isObject(bound) ? bound.port : port,
    drain: () => new Promise((resolve) => void server.close(() => resolve())),
    kill: async () => server.closeAllConnections(),
  }
}

/**
 * Gives up the rest of a body. On Node it is read to its end: @hono/node-server 2.1.9 stops to read a body that is cancelled, and
 * closes its connection half a second after the answer, when the client may have sent its next request over it. It closes the
 * connection of a body that takes longer as well.
 */
export const discardRest = async (reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> => {
  if (currentRuntime() !== "node") return reader.cancel()
  for (let rest = await reader.read(); !rest.done; ) rest = await reader.read()
}
