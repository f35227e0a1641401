/** Listens on an address, by the server of the runtime: Bun's or Deno's. */
import { CallboardError } from "../errors.ts"
import { hostText } from "./access.ts"

export interface Listener {
  readonly port: number
  /** Accepts no new requests; resolves when the running ones have been answered. */
  drain(): Promise<void>
  /** Closes the connections of requests that still run, as far as the runtime can. */
  kill(): Promise<void>
}

export interface Address {
  readonly host: string
  /** 0: any free one. */
  readonly port: number
}

/** Called when the server could not accept connections, and is about to listen again. */
type OnLost = (error: unknown) => void

type Handler = (request: Request) => Response | Promise<Response>

/** As much of `Bun.serve` as is used. */
interface BunLike {
  serve(options: {
    readonly hostname: string
    readonly port: number
    readonly fetch: Handler
    readonly idleTimeout: number
    readonly maxRequestBodySize: number
  }): { readonly port: number; stop(closeActiveConnections?: boolean): Promise<void> }
}

/** As much of `Deno.serve` as is used. */
interface DenoLike {
  serve(
    options: {
      readonly hostname: string
      readonly port: number
      readonly onListen: () => void
    },
    handler: Handler,
  ): DenoServer
}

interface DenoServer {
  readonly addr: { readonly port: number }
  /** Rejects when it cannot accept connections any more, and so has ended by itself. */
  readonly finished: Promise<void>
  shutdown(): Promise<void>
  unref(): void
}

const canServe = (value: unknown): value is { serve: unknown } =>
  typeof value === "object" && value !== null && "serve" in value && typeof value.serve === "function"

const isBun = (value: unknown): value is BunLike => canServe(value)
const isDeno = (value: unknown): value is DenoLike => canServe(value)

/**
 * Seconds that a connection may be silent: longer than the longest wait for a result and than the keep-alive of
 * streams.
 */
const IDLE_TIMEOUT = 120

const onBun = (bun: BunLike, { host, port }: Address, handler: Handler): Listener => {
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

/** How long after a server has ended by itself another one listens, and how often that is logged, in milliseconds. */
const LISTEN_AGAIN_MS = 500
const SAY_AGAIN_MS = 30_000

/**
 * Deno's server ends when it cannot accept a connection, because the process has no file left to open, and never listens again.
 * Another one takes its place.
 */
const onDeno = (deno: DenoLike, { host, port }: Address, handler: Handler, onLost: OnLost): Listener => {
  let timer: ReturnType<typeof setTimeout> | undefined
  let said = Number.NEGATIVE_INFINITY
  let stops = false
  const open = (at: number): DenoServer => {
    const opened = deno.serve({ hostname: host, port: at, onListen: () => undefined }, handler)
    opened.finished.catch(listenAgain)
    return opened
  }
  const listenAgain = (error: unknown): void => {
    if (stops) return
    if (performance.now() - said >= SAY_AGAIN_MS) {
      said = performance.now()
      onLost(error)
    }
    timer = setTimeout(() => {
      try {
        server = open(bound)
      } catch (cause) {
        listenAgain(cause)
      }
    }, LISTEN_AGAIN_MS)
  }
  let server = open(port)
  const bound = server.addr.port
  return {
    port: bound,
    drain: async () => {
      stops = true
      clearTimeout(timer)
      // The error of a server that has ended by itself was reported before.
      await server.shutdown().catch(() => undefined)
    },
    // Deno 2.9 cannot hurry a shutdown: aborting it throws an error that no code of ours can catch. A connection that is
    // left, such as that of a client that sends without end, must at least not keep the process alive.
    kill: async () => server.unref(),
  }
}

/** Starts to listen. Fails with `invalid-input` where the address cannot be had, saying why and what to do. */
export const listen = (address: Address, handler: Handler, onLost: OnLost): Listener => {
  const bun: unknown = Reflect.get(globalThis, "Bun")
  const deno: unknown = Reflect.get(globalThis, "Deno")
  try {
    if (isBun(bun)) return onBun(bun, address, handler)
    if (isDeno(deno)) return onDeno(deno, address, handler, onLost)
  } catch (cause) {
    throw cannotListen(address, cause)
  }
  throw new CallboardError(
    "unsupported",
    "HTTP is served on Bun or Deno; mount `http(client, { tokens })` in a server of your own",
  )
}

/** Another program has the port. The error of the runtime says nothing more, so it is not kept as the cause. */
export class AddressTaken extends CallboardError {
  constructor(message: string) {
    super("invalid-input", message, { field: "http.port" })
  }
}

const cannotListen = ({ host, port }: Address, cause: unknown): CallboardError => {
  const text =
    cause instanceof Error ? `${Reflect.get(cause, "code") ?? ""} ${cause.name} ${cause.message}` : String(cause)
  const address = `${hostText(host)}:${port}`
  if (/EADDRINUSE|AddrInUse|in use/i.test(text)) {
    return new AddressTaken(`http.port: ${address} is taken; choose another port, or 0 for a free one`)
  }
  if (/EACCES|PermissionDenied|permission/i.test(text)) {
    return new CallboardError(
      "invalid-input",
      `http.port: no permission to listen on ${address}; choose a port from 1024 on`,
      {
        field: "http.port",
        cause,
      },
    )
  }
  return new CallboardError("invalid-input", `http.host: cannot listen on ${address} (${text.trim()})`, {
    field: "http.host",
    cause,
  })
}
