/**
 * The thread that extends leases while the main thread may be blocked, and ends the process when a handler has blocked it past
 * its hard limit. It knows only tokens: those of new deliveries, and at short intervals, while the main thread is not blocked,
 * those of all deliveries.
 */
import { parentPort, workerData } from "node:worker_threads"
import { connectTransport } from "../../connection/connect.ts"
import type { Transport } from "../../transport/lift/transport.ts"
import { TransportError } from "../../transport/mod.ts"
import {
  type LeaseThreadCommand,
  type LeaseThreadData,
  type LeaseThreadMessage,
  SharedHeartbeat,
  SharedToken,
  unpackTokens,
} from "./lease-protocol.ts"

const data: LeaseThreadData = workerData
const clock = new SharedHeartbeat(data.clock)
const newest = new SharedToken(data.newest)
/** By token, when its lease was last extended, or when it came. */
const held = new Map<string, number>()
let transport: Transport | undefined
let busy = false
/** The entry of the store that shows that this process is alive. */
let entry: { readonly key: string; readonly ttlMs: number; beat: ReturnType<typeof setInterval> } | undefined

const ALIVE = new TextEncoder().encode("alive")

const post = (message: LeaseThreadMessage) => parentPort?.postMessage(message)

/**
 * What fails since its last success. It is reported once, so that a long outage does not log one warning per attempt.
 */
const troubled = new Set<"leases" | "entry">()

const trouble = (what: "leases" | "entry", cause: unknown) => {
  if (troubled.has(what)) return
  troubled.add(what)
  post({ kind: "trouble", message: cause instanceof Error ? cause.message : String(cause) })
}

/** Ends this process, once the job of the handler that blocks it is recorded as timed out. */
const endProcess = async (open: Promise<Transport>): Promise<void> => {
  clearInterval(timer)
  try {
    // Loaded when it is needed, which is hardly ever: it needs much more than the rest of this thread.
    const { endBlocked, lastWords } = await import("./blocked.ts")
    await endBlocked(open, (now) => clock.lastRun(now), data.worker, [...held.keys()], lastWords(data.log))
  } finally {
    // `process.exit` would end only this thread.
    process.kill(process.pid, "SIGKILL")
  }
}

const extend = async (connected: Transport, now: number) => {
  if (busy) return
  const due = [...held].filter(([, since]) => now - since >= data.lease / 3).map(([token]) => token)
  if (due.length === 0) return
  busy = true
  try {
    const kept = await connected.jobs.extend(due)
    troubled.delete("leases")
    const lost = due.filter((_, at) => kept[at] === false)
    // A lost lease is tried again: the worker may continue with the job as long as no other delivery has claimed it.
    for (const token of due) if (held.has(token)) held.set(token, now)
    // A delivery that belongs to the connection of the main thread is not known here.
    if (lost.length > 0 && data.extendsAlone) post({ kind: "lost", tokens: lost })
  } catch (cause) {
    trouble("leases", cause)
  } finally {
    busy = false
  }
}

const beat = async () => {
  if (entry === undefined) return
  try {
    await transport?.store?.write([{ key: entry.key, value: ALIVE, ttl: entry.ttlMs }])
    troubled.delete("entry")
  } catch (cause) {
    trouble("entry", cause)
  }
}

/**
 * Extends the lease of a delivery from now on. A delivery that came before this thread was connected may be older than it seems,
 * so its lease is extended at once.
 */
const add = (token: string): void => {
  if (!held.has(token)) held.set(token, transport === undefined ? Number.NEGATIVE_INFINITY : performance.now())
}

parentPort?.on("message", (command: LeaseThreadCommand) => {
  switch (command.kind) {
    case "added":
      for (const token of unpackTokens(command.tokens)) add(token)
      break
    case "held": {
      const still = new Set(unpackTokens(command.tokens))
      for (const token of held.keys()) if (!still.has(token)) held.delete(token)
      for (const token of still) add(token)
      break
    }
    case "keep-alive":
      clearInterval(entry?.beat)
      entry = { key: command.key, ttlMs: command.ttlMs, beat: setInterval(() => void beat(), command.ttlMs / 3) }
      break
    case "stop":
      clearInterval(timer)
      clearInterval(entry?.beat)
      void (transport?.close() ?? Promise.resolve()).finally(() => process.exit(0))
  }
})

/** Longest time between two looks at whether the main thread is blocked, which a long lease must not delay. */
const LOOK_MS = 2_500

const timer = setInterval(
  () => {
    const token = newest.read()
    if (token !== undefined) add(token)
    const now = performance.now()
    if (clock.isBlocked(now)) void endProcess(transport === undefined ? open() : Promise.resolve(transport))
    else if (transport !== undefined) void extend(transport, now)
  },
  Math.min(data.lease / 12, LOOK_MS),
)

/** Delay between two attempts to connect, in milliseconds; the shortest lease is one second. */
const AGAIN_MS = 250

const open = (): Promise<Transport> =>
  connectTransport(data.url, {
    leaseMs: data.lease,
    ...(data.namespace === undefined ? {} : { namespace: data.namespace }),
    ...(data.heartbeat === undefined ? {} : { heartbeatMs: data.heartbeat }),
  })

const connect = (): Promise<void> =>
  open().then(
    (connected) => {
      transport = connected
      post({ kind: "ready" })
    },
    (cause: unknown) => {
      const message = cause instanceof Error ? cause.message : String(cause)
      // The worker is connected to the same transport, so an outage here is likely to be short.
      if (cause instanceof TransportError && cause.retryable) setTimeout(() => void connect(), AGAIN_MS)
      else post({ kind: "failed", message })
    },
  )

void connect()
