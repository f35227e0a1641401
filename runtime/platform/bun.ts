/** Bun's server, and the faults and limits of Bun that the runtime works around, with the version in which each was seen. */
import type { Writable } from "node:stream"
import { currentRuntime } from "./runtime.js"
import { type Address, type Handler, hasMethod, type Listener } from "./server.ts"

/** As much of `Bun` as is used. */
export interface BunLike {
  serve(options: {
    readonly hostname: string
    readonly port: number
    readonly fetch: Handler
    readonly idleTimeout?: number
    readonly maxRequestBodySize?: number
  }): { readonly port: number; stop(closeActiveConnections?: boolean): Promise<void> }
}

export const isBun = (value: unknown): value is BunLike => hasMethod(value, "serve")

/** Seconds that a connection may be silent: longer than any request may take. */
const IDLE_TIMEOUT = 120

/** Starts Bun's server. Throws Bun's error where the address cannot be had. */
export const serveOnBun = (bun: BunLike, { host, port }: Address, handler: Handler): Listener => {
  const server = bun.serve({
    hostname: host,
    port,
    fetch: handler,
    idleTimeout: IDLE_TIMEOUT,
    // The application has a limit of its own and answers 413; Bun would close the connection without an answer.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
  })
  return { port: server.port, drain: () => server.stop(), kill: () => server.stop(true) }
}

interface BunServer {
  timeout(request: Request, seconds: number): void
}

const isBunServer = (value: unknown): value is BunServer => "bun" in process.versions && hasMethod(value, "timeout")

/**
 * Lets a request take its time in a server of the application's own, which Bun 1.4.5 hands to the handler beside the request:
 * unless its `idleTimeout` says otherwise it closes a connection that is silent for ten seconds.
 */
export const allowSilence = (server: unknown, request: Request): void => {
  if (isBunServer(server)) server.timeout(request, IDLE_TIMEOUT)
}

/**
 * Resolves when a stream of the process has written everything; nothing is written to it any more. On Bun 1.4.5 the callback
 * of an empty write comes at once, before what was written earlier, so that the stream is ended. On Node 24.21 an end would shut
 * the socket, which the processes of `callboard dev` and of a pool share with their supervisor.
 */
export const allWritten = (stream: Writable): Promise<void> =>
  new Promise((resolve) => {
    const done = () => resolve()
    if (currentRuntime() === "bun") stream.end(done)
    else stream.write("", done)
  })
