/**
 * Extends the leases of this worker's deliveries. Where the transport has a URL, a thread of its own does so, so that a
 * handler that blocks the main thread does not lose its job. Otherwise (in-process transports, clients that the
 * application owns), and until that thread is connected, the main thread does. Where some deliveries belong to the connection
 * that took them, both do. A delivery whose lease is lost is ended, and never settled.
 */
import { Worker as Thread } from "node:worker_threads"
import type { Clock } from "../../async/clock.ts"
import type { WorkerDescription } from "../../cluster/directory.ts"
import type { Log } from "../../log/log.ts"
import { mainArguments, mainProgram, ownProgram } from "../../platform/program.ts"
import type { Jobs } from "../../transport/job-store/transport.ts"
import type { ActiveDelivery, HeldDeliveries } from "../active-delivery.ts"
import {
  asLeaseThread,
  type LeaseThreadCommand,
  type LeaseThreadMessage,
  type LeaseThreadTarget,
  type ListedRun,
  packTokens,
  type RunDetails,
  SharedHeartbeat,
  SharedToken,
  type Tokens,
} from "./lease-protocol.ts"

/** The runs whose leases are kept. */
export interface LeasedRuns {
  /** Called with a delivery whose lease is lost. */
  leaseLost(active: ActiveDelivery): void
  /** The runs whose handlers were called and have not ended. */
  running(): ReadonlyArray<ListedRun>
  /** Called when the thread has told of runs as started: with their tokens. */
  reported(tokens: ReadonlyArray<string>): void
}

interface LeaseKeeperOptions {
  readonly jobs: Jobs
  readonly held: Pick<HeldDeliveries, "size" | "values">
  /** Name of the worker. */
  readonly worker: string
  /** Length of a lease, in milliseconds. A lease is extended when a third of it is over. */
  readonly lease: number
  readonly log: Log
  readonly runs: LeasedRuns
  /** How a thread can connect to the same transport. Absent: the main thread extends the leases. */
  readonly thread?: LeaseThreadTarget
}

export interface LeaseKeeper {
  /** Adds deliveries that have just been pulled. */
  added(tokens: ReadonlyArray<string>): void
  /** Passes on the earliest hard limit of the running handlers, by `performance.now()`; `Infinity` when none runs. */
  deadline(at: number): void
  /**
   * Passes on which handler is about to be called, since that is the one that blocks if the main thread blocks next.
   */
  calling(run: RunDetails): void
  /** Passes on which runs there are, where they are others than before. */
  list(): void
  /** Passes on how the worker describes itself, which the thread writes while the main thread is blocked. */
  described(worker: WorkerDescription): void
  stop(): void
}

/** Starts to extend leases. */
export const keepLeases = (options: LeaseKeeperOptions): LeaseKeeper =>
  options.thread === undefined ? keepHere(options) : keepInThread(options, options.thread)

const keepHere = (options: LeaseKeeperOptions): LeaseKeeper => {
  let busy = false
  /** Set after the first warning, so that a long outage does not log one per attempt. */
  let troubled = false
  const extend = async () => {
    const all = leased(options)
    if (busy || all.length === 0) return
    busy = true
    try {
      const kept = await options.jobs.extend(all.map((active) => active.delivery.token))
      troubled = false
      lost(options, new Set(all.filter((_, at) => kept[at] === false).map(({ delivery }) => delivery.token)))
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
    list: () => undefined,
    described: () => undefined,
    stop: () => clearInterval(timer),
  }
}

/** Deliveries that have a lease. A task that was acked early has none. */
const leased = ({ held }: LeaseKeeperOptions): ReadonlyArray<ActiveDelivery> =>
  held.values().filter(({ offQueue }) => !offQueue)

/** Reports lost leases, except of deliveries that were settled meanwhile, which ends their leases as well. */
const lost = (options: LeaseKeeperOptions, tokens: ReadonlySet<string>): void => {
  if (tokens.size === 0) return
  const held = leased(options).filter(({ delivery, phase }) => phase !== "settling" && tokens.has(delivery.token))
  for (const active of held) options.runs.leaseLost(active)
}

/** Longest interval at which the thread gets the list of all deliveries. New ones are passed on at once. */
const SYNC_MS = 1_000
const BEAT_MS = 250

const keepInThread = (options: LeaseKeeperOptions, target: LeaseThreadTarget): LeaseKeeper => {
  const clock = new SharedHeartbeat()
  const newest = new SharedToken()
  const data = asLeaseThread({
    ...target,
    worker: options.worker,
    lease: options.lease,
    clock: clock.buffer,
    newest: newest.buffer,
    log: options.log.settings,
  })
  const program = ownProgram("./lease-thread", import.meta.url) ?? mainProgram()
  const thread = new Thread(program, { workerData: data, argv: [...mainArguments()] })
  // The main thread extends leases until the thread is connected, which on a busy machine can take longer than a short
  // lease.
  let here: LeaseKeeper | undefined = keepHere(options)
  let gaveUp = false
  let stopped = false
  const post = (command: LeaseThreadCommand) => thread.postMessage(command)
  const giveUp = (why: string) => {
    if (stopped || gaveUp) return
    gaveUp = true
    options.log.warn("leases are extended by the main thread: a handler that blocks it may lose its job", {
      cause: why,
    })
    here ??= keepHere(options)
  }
  thread.on("message", (message: LeaseThreadMessage) => {
    if (message.kind === "lost") lost(options, new Set(message.tokens))
    else if (message.kind === "ready") {
      if (!target.extendsAlone) return
      here?.stop()
      here = undefined
    } else if (message.kind === "reported") options.runs.reported(message.tokens)
    else if (message.kind === "unblocked") {
      const { seconds, job = "unknown" } = message
      options.log.warn("a handler blocked this worker: nothing else ran during that time", { job, seconds })
    } else if (message.kind === "trouble") options.log.warn("leases could not be extended", { cause: message.message })
    else giveUp(message.message)
  })
  thread.on("error", (cause) => giveUp(cause instanceof Error ? cause.message : String(cause)))
  thread.on("exit", () => giveUp("its thread ended"))
  thread.unref()
  clock.beat()
  // Both timers end with the first look that finds nothing to do, since each look of an idle worker costs a wake-up.
  let beats: ReturnType<typeof setInterval> | undefined
  let syncs: ReturnType<typeof setInterval> | undefined
  let listed: Tokens = ""
  /** Passes on what runs: a handler that has given way once cannot be told from the others by its call. */
  const list = (): void => {
    const runs = options.runs.running()
    const tokens = packTokens(runs.map(({ token }) => token))
    if (tokens === listed) return
    listed = tokens
    post({ kind: "running", runs })
  }
  const beat = (): void => {
    clock.beat()
    list()
    if (clock.hasDeadline) return
    clearInterval(beats)
    beats = undefined
  }
  const sync = (): void => {
    const tokens = packTokens(leased(options).map(({ delivery }) => delivery.token))
    if (tokens === "") {
      // The thread would take a token that it has not read yet for one of a new delivery.
      newest.clear()
      clearInterval(syncs)
      syncs = undefined
    }
    post({ kind: "held", tokens })
  }
  const added = (tokens: ReadonlyArray<string>): void => {
    // A lease is extended when a third of it is over: by then the thread knows of a delivery that has ended meanwhile.
    syncs ??= setInterval(sync, Math.min(SYNC_MS, options.lease / 4))
    const [only] = tokens
    // The token before it is replaced, whose delivery has ended: this one is alone.
    const isNoted = only !== undefined && options.held.size <= 1 && tokens.length === 1 && newest.write(only)
    if (!isNoted) post({ kind: "added", tokens: packTokens(tokens) })
  }
  return {
    added,
    deadline: (at) => {
      clock.deadline(at)
      if (clock.hasDeadline) beats ??= setInterval(beat, BEAT_MS)
    },
    calling: (run) => clock.note(run),
    list,
    described: (described) => post({ kind: "described", described }),
    stop: () => {
      stopped = true
      clearInterval(beats)
      clearInterval(syncs)
      clock.deadline(Number.POSITIVE_INFINITY)
      post({ kind: "stop" })
      here?.stop()
    },
  }
}

const TURN_MS = 1_000

/** What starts handlers, and knows which deliveries wait. */
export interface Stallable {
  /** Called after a freeze: finds out which waiting deliveries still belong to this worker. The doubt ends when it resolves. */
  resume(): Promise<void>
  /** Called when the doubt has ended, because no handler was started meanwhile. */
  pump(): void
}

/**
 * Detects that this process was frozen (stopped, swapped out, or its main thread blocked) for so long that leases may have
 * expired. Until that is clarified no handler is started, because a waiting delivery may run on another worker by now.
 */
export class StallWatch {
  readonly #limitMs: number
  readonly #dispatcher: Stallable
  readonly #timer: ReturnType<typeof setInterval>
  readonly #clock: Clock
  #lastTurn: number
  #clearing = false
  #freezes = 0

  /** `leaseMs` is the length of a lease. */
  constructor(leaseMs: number, dispatcher: Stallable, clock: Clock) {
    this.#clock = clock
    this.#lastTurn = clock.now()
    this.#limitMs = leaseMs * 0.6
    this.#dispatcher = dispatcher
    this.#timer = setInterval(() => this.leasesInDoubt(), Math.min(TURN_MS, leaseMs / 4))
  }

  /** Whether leases may have expired. */
  leasesInDoubt(): boolean {
    // The wall clock is used because the monotonic one may stop while the machine sleeps. If the time was set forward,
    // that costs one check of the leases; if it was set back, the next turn is compared with this one.
    const now = this.#clock.now()
    const paused = now - this.#lastTurn > this.#limitMs
    this.#lastTurn = now
    if (paused) this.#freezes++
    if (paused && !this.#clearing) {
      this.#clearing = true
      void this.#dispatcher.resume().finally(() => {
        this.#clearing = false
        this.#dispatcher.pump()
      })
    }
    return this.#clearing
  }

  /** How often this process has stood still for so long that its leases may have ended. */
  freezes(): number {
    this.leasesInDoubt()
    return this.#freezes
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
