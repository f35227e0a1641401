/**
 * Keeps the leases of what this worker holds. Where the transport has a URL, a thread of its own does it, so that a
 * handler that blocks this thread does not lose its job; else (in-process transports, clients that the application
 * holds) this thread does, as it does until that thread is connected. A delivery whose lease is lost is ended, and never
 * settled.
 */
import { Worker as Thread } from "node:worker_threads"
import type { Log } from "../../log/log.ts"
import type { Jobs } from "../../transport/lift/transport.ts"
import type { InFlight } from "../delivery/in-flight.ts"
import {
  type LeaseThreadCommand,
  type LeaseThreadData,
  type LeaseThreadMessage,
  type LeaseThreadTarget,
  packTokens,
  type RunDetails,
  SharedHeartbeat,
} from "./lease-protocol.ts"

export interface LeaseKeeperOptions {
  readonly jobs: Jobs
  readonly inFlight: ReadonlyMap<string, InFlight>
  /** Length of a lease, in milliseconds; extended at a third of it. */
  readonly lease: number
  readonly log: Log
  readonly onLost: (inFlight: InFlight) => void
  /** How a thread can connect to the same transport. Absent: this thread keeps the leases. */
  readonly thread?: LeaseThreadTarget
}

export interface LeaseKeeper {
  /** Deliveries that have just come. */
  added(tokens: ReadonlyArray<string>): void
  /** Earliest hard limit of the handlers that run, by the clock that nobody sets; `Infinity` when none runs. */
  deadline(at: number): void
  /** The handler that is about to be called: what blocks, if the thread blocks next. */
  calling(run: RunDetails): void
  /** Writes this entry of the store again and again, so that it does not lapse while this thread is blocked. */
  keepAlive(key: string, ttlMs: number): void
  stop(): void
}

/** Starts keeping. */
export const keepLeases = (options: LeaseKeeperOptions): LeaseKeeper =>
  options.thread === undefined ? keepHere(options) : keepInThread(options, options.thread)

const keepHere = (options: LeaseKeeperOptions): LeaseKeeper => {
  let busy = false
  /** Said once, not with each try of a long outage. */
  let troubled = false
  const extend = async () => {
    const all = leased(options)
    if (busy || all.length === 0) return
    busy = true
    try {
      const kept = await options.jobs.extend(all.map((inFlight) => inFlight.delivery.token))
      troubled = false
      for (const [at, inFlight] of all.entries()) if (kept[at] === false) lost(options, inFlight.delivery.token)
    } catch (cause) {
      if (!troubled)
        options.log.warn("leases could not be extended", {
          cause: cause instanceof Error ? cause.message : String(cause),
        })
      troubled = true
    } finally {
      busy = false
    }
  }
  const timer = setInterval(() => void extend(), options.lease / 3)
  return {
    added: () => undefined,
    deadline: () => undefined,
    calling: () => undefined,
    // Whoever asked does so by itself while this thread turns.
    keepAlive: () => undefined,
    stop: () => clearInterval(timer),
  }
}

/** Those that have a lease to be kept. */
const leased = ({ inFlight }: LeaseKeeperOptions): ReadonlyArray<InFlight> =>
  [...inFlight.values()].filter(({ offQueue }) => !offQueue)

/** One that was settled meanwhile is not ours any more either, and that is as it should be. */
const lost = (options: LeaseKeeperOptions, token: string): void => {
  const inFlight = options.inFlight.get(token)
  if (inFlight !== undefined && inFlight.phase !== "settling" && !inFlight.offQueue) options.onLost(inFlight)
}

/** The thread hears of every delivery when it comes, and of what is still held this often. */
const SYNC_MS = 1_000
const BEAT_MS = 250

const keepInThread = (options: LeaseKeeperOptions, target: LeaseThreadTarget): LeaseKeeper => {
  const clock = new SharedHeartbeat()
  const data: LeaseThreadData = {
    ...target,
    lease: options.lease,
    clock: clock.buffer,
    log: options.log.settings,
  }
  // In the repository this is TypeScript, in the package JavaScript: the thread's file is of the same kind.
  const file = new URL(import.meta.url.endsWith(".ts") ? "./lease-thread.ts" : "./lease-thread.js", import.meta.url)
  const thread = new Thread(file, { workerData: data })
  // To load and to connect takes a thread longer than a short lease lasts, where the machine is busy.
  let here: LeaseKeeper | undefined = keepHere(options)
  let gaveUp = false
  let stopped = false
  const order = (orders: LeaseThreadCommand) => thread.postMessage(orders)
  const giveUp = (why: string) => {
    if (stopped || gaveUp) return
    gaveUp = true
    options.log.warn("leases are kept by the main thread: a handler that blocks it may lose its job", { cause: why })
    here ??= keepHere(options)
  }
  thread.on("message", (news: LeaseThreadMessage) => {
    if (news.kind === "lost") for (const token of news.tokens) lost(options, token)
    else if (news.kind === "ready") {
      here?.stop()
      here = undefined
    } else if (news.kind === "trouble") options.log.warn("leases could not be extended", { cause: news.message })
    else giveUp(news.message)
  })
  thread.on("error", (cause) => giveUp(cause instanceof Error ? cause.message : String(cause)))
  thread.on("exit", () => giveUp("its thread ended"))
  thread.unref()
  clock.beat()
  const beats = setInterval(() => clock.beat(), BEAT_MS)
  const syncs = setInterval(
    () => order({ kind: "held", tokens: packTokens(leased(options).map(({ delivery }) => delivery.token)) }),
    SYNC_MS,
  )
  return {
    added: (tokens) => order({ kind: "added", tokens: packTokens(tokens) }),
    deadline: (at) => clock.deadline(at),
    calling: (run) => clock.note(run),
    keepAlive: (key, ttlMs) => order({ kind: "keep-alive", key, ttlMs }),
    stop: () => {
      stopped = true
      clearInterval(beats)
      clearInterval(syncs)
      clock.deadline(Number.POSITIVE_INFINITY)
      order({ kind: "stop" })
      here?.stop()
    },
  }
}
