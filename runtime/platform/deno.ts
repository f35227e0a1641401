/** Deno's server, and the faults and limits of Deno that the runtime works around, with the version in which each was seen. */
import { sleep } from "../transport/timers.ts"
import { type Address, type Handler, hasMethod, type Listener, type OnLost, throttled } from "./server.ts"

/** As much of `Deno` as is used. */
export interface DenoLike {
  serve(
    options: {
      readonly hostname: string
      readonly port: number
      readonly signal: AbortSignal
      readonly onListen: () => void
    },
    handler: (request: Request, info: { readonly completed: Promise<void> }) => Response | Promise<Response>,
  ): DenoServer
}

interface DenoServer {
  readonly addr: { readonly port: number }
  /** Rejects when it cannot accept connections any more, and so has ended by itself. */
  readonly finished: Promise<void>
}

export const isDeno = (value: unknown): value is DenoLike => hasMethod(value, "serve")

/** How long after a server has ended by itself another one listens, in milliseconds. */
const LISTEN_AGAIN_MS = 500

/** How long Deno may take to send an answer that it has called completed, in milliseconds. */
const SENDING_MS = 200

/**
 * Starts Deno's server. Throws Deno's error where the address cannot be had. On Deno 2.9 it works around two faults:
 *
 * - A server ends when it cannot accept a connection, because the process has no file left to open, and never listens
 *   again. Another one takes its place.
 * - `shutdown` breaks bodies that still arrive, then waits for their clients without end, and cannot be hurried: an abort
 *   after it throws an error that no code can catch. So a server is aborted once the running requests, which are counted
 *   here, have been answered. It accepts requests until then; the application refuses them.
 */
export const serveOnDeno = (deno: DenoLike, { host, port }: Address, handler: Handler, onLost: OnLost): Listener => {
  let timer: ReturnType<typeof setTimeout> | undefined
  const say = throttled(onLost)
  let stops = false
  const running = new Set<Promise<void>>()
  let answeredAt = Number.NEGATIVE_INFINITY
  const handle = (request: Request, { completed }: { readonly completed: Promise<void> }) => {
    const done = () => {
      running.delete(answered)
      answeredAt = performance.now()
    }
    const answered = completed.then(done, done)
    running.add(answered)
    return handler(request)
  }
  const open = (at: number) => {
    const closing = new AbortController()
    const options = { hostname: host, port: at, signal: closing.signal, onListen: () => undefined }
    const { addr, finished } = deno.serve(options, handle)
    let hasEnded = false
    const ended = finished.then(
      () => undefined,
      (error: unknown) => {
        hasEnded = true
        listenAgain(error)
      },
    )
    // To abort a server that has ended by itself throws that error as well.
    const close = () => {
      if (!hasEnded) closing.abort()
      return ended
    }
    return { port: addr.port, close }
  }
  const listenAgain = (error: unknown): void => {
    if (stops) return
    say(error)
    timer = setTimeout(() => {
      try {
        server = open(bound)
      } catch (cause) {
        listenAgain(cause)
      }
    }, LISTEN_AGAIN_MS)
  }
  let server = open(port)
  const bound = server.port
  return {
    port: bound,
    drain: async () => {
      stops = true
      clearTimeout(timer)
      await Promise.all(running)
      const sending = answeredAt + SENDING_MS - performance.now()
      if (sending > 0) await sleep(sending)
    },
    kill: () => server.close(),
  }
}

const ABORT_WARNING = "Deno.serve: request.signal aborts on successful responses"

/**
 * Keeps Deno 2.9 from printing four lines when the first request whose signal was read is answered, unless the process was
 * started with `--unstable-no-legacy-abort`: that the signal fires after an answer as well, which changes nothing here.
 * Deno prints them once, so that `console.warn` is then as it was.
 */
export const withoutAbortWarning = (): void => {
  if (!("deno" in process.versions) || isQuiet) return
  isQuiet = true
  const { warn } = console
  const quiet = (...given: ReadonlyArray<unknown>): void => {
    if (!String(given[0]).startsWith(ABORT_WARNING)) warn.apply(console, [...given])
    else if (console.warn === quiet) console.warn = warn
  }
  console.warn = quiet
}
let isQuiet = false
