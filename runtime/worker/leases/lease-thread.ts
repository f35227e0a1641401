/**
 * The thread that extends leases while the main thread may be blocked, tells of the worker while it is, and ends the process
 * when a handler has blocked it past its hard limit, or although its job was terminated. It knows only tokens: those of new deliveries, and at short intervals, while the main thread is not blocked,
 * those of all deliveries.
 */
import { isMainThread, parentPort, workerData } from "node:worker_threads"
import type { WorkerDescription } from "../../cluster/directory.ts"
import { connectTransport } from "../../connection/connect.ts"
import { compact } from "../../protocol/compact.ts"
import type { Transport } from "../../transport/job-store/transport.ts"
import { TransportError } from "../../transport/mod.ts"
import { sleep } from "../../transport/timers.ts"
import type { BlockWatch } from "./blocked.ts"
import {
  isLeaseThread,
  type LeaseThreadCommand,
  type LeaseThreadData,
  type LeaseThreadMessage,
  type ListedRun,
  type RunDetails,
  SharedHeartbeat,
  SharedToken,
  unpackTokens,
} from "./lease-protocol.ts"

/** Longest wait for the connection to close before the process ends. */
const CLOSE_MS = 1_000

/** Longest time between two looks at whether the main thread is blocked, which a long lease must not delay. */
const LOOK_MS = 1_000

/** Without a sign of life for this long the main thread may be blocked. */
const STILL_MS = 900

/** Delay between two attempts to connect, in milliseconds; the shortest lease is one second. */
const AGAIN_MS = 250

/** Extends leases until the worker ends this. */
const extendLeases = (data: LeaseThreadData): void => {
  const clock = new SharedHeartbeat(data.clock)
  const newest = new SharedToken(data.newest)
  /** By token, when its lease was last extended, or when it came. */
  const held = new Map<string, number>()
  /** The runs of the worker, as it told of them last. */
  let runs: ReadonlyArray<ListedRun> = []
  /** The worker, as it described itself last. */
  let described: WorkerDescription | undefined
  let transport: Transport | undefined
  let busy = false
  const post = (message: LeaseThreadMessage) => parentPort?.postMessage(message)

  /** Whether the last extension failed. That is reported once, so that a long outage does not log one warning per attempt. */
  let isTroubled = false

  const trouble = (cause: unknown) => {
    if (isTroubled) return
    isTroubled = true
    post({ kind: "trouble", message: cause instanceof Error ? cause.message : String(cause) })
  }

  /** The run whose handler blocks the main thread, where it is known: the one that was called last, or the only one. */
  const blockingRun = (now: number): RunDetails | undefined => {
    const inline = runs.filter((run) => run.inline)
    return clock.lastRun(now) ?? (inline.length === 1 ? inline[0] : undefined)
  }

  let isEnding = false

  /** Ends this process, once the jobs that it has are settled. `cancelled`: the run that blocks it, whose job was cancelled. */
  const endProcess = async (open: Promise<Transport>, cancelled?: RunDetails): Promise<void> => {
    if (isEnding) return
    isEnding = true
    clearInterval(timer)
    try {
      // Loaded when it is needed, which is hardly ever: it needs much more than the rest of this thread.
      const { endBlocked, lastWords } = await import("./blocked.ts")
      const blocked = { worker: data.worker, runAt: blockingRun, cancelled, held: [...held.keys()], runs }
      await endBlocked(open, blocked, lastWords(data.log))
      // What was written last may still be in this process.
      const closed = open.then((connected) => connected.close()).catch(() => undefined)
      await Promise.race([closed, sleep(CLOSE_MS)])
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
      isTroubled = false
      const lost = due.filter((_, at) => kept[at] === false)
      // A lost lease is tried again: the worker may continue with the job as long as no other delivery has claimed it.
      for (const token of due) if (held.has(token)) held.set(token, now)
      // A delivery that belongs to the connection of the main thread is not known here.
      if (lost.length > 0 && data.extendsAlone) post({ kind: "lost", tokens: lost })
    } catch (cause) {
      trouble(cause)
    } finally {
      busy = false
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
      case "running":
        runs = command.runs
        break
      case "described":
        described = command.described
        break
      case "stop":
        clearInterval(timer)
        void (transport?.close() ?? Promise.resolve()).finally(() => process.exit(0))
    }
  })

  /** Tells of the worker while its main thread is blocked. */
  let watching: Promise<BlockWatch> | undefined

  const watchOf = async (connected: Transport): Promise<BlockWatch> => {
    const { BlockWatch, lastWords } = await import("./blocked.ts")
    const { worker, lease } = data
    return new BlockWatch({
      transport: connected,
      worker,
      described,
      lease,
      log: lastWords(data.log),
      runs,
      runAt: blockingRun,
      onReported: (tokens) => post({ kind: "reported", tokens }),
      onEnd: (cancelled) => void endProcess(Promise.resolve(connected), cancelled),
    })
  }

  const lookAtMain = (connected: Transport, now: number): void => {
    const still = clock.stillMs(now, 1.2 * LOOK_MS)
    if (still >= STILL_MS) {
      watching ??= watchOf(connected)
      void watching.then((watch) => watch.look(still, now))
    } else if (watching !== undefined) {
      void watching.then((watch) => {
        const was = watch.end()
        if (was !== undefined) post({ kind: "unblocked", ...was })
      })
      watching = undefined
    }
  }

  const timer = setInterval(
    () => {
      const token = newest.read()
      if (token !== undefined) add(token)
      const now = performance.now()
      if (clock.isBlocked(now)) void endProcess(transport === undefined ? open() : Promise.resolve(transport))
      else if (transport !== undefined) {
        void extend(transport, now)
        lookAtMain(transport, now)
      }
    },
    Math.min(data.lease / 12, LOOK_MS),
  )

  const open = (): Promise<Transport> =>
    connectTransport(data.url, {
      leaseMs: data.lease,
      ...compact({ namespace: data.namespace, heartbeatMs: data.heartbeat }),
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
}

/** Whether this is the thread. In a bundle this module is loaded in the main thread, too. */
export const isExtending = !isMainThread && isLeaseThread(workerData)

if (isExtending) extendLeases(workerData)
