/**
 * Runs one job many times, each time with a worker that dies at another write: before the write, or after it, with its
 * answer lost. Time is virtual, so leases end at once.
 */

import { type ActorDefinition, checkActor } from "../actor/actor.ts"
import { connect } from "../client/client.ts"
import { builtin } from "../connection/builtin.ts"
import type { JobView } from "../jobs/view.ts"
import type { DurationInput } from "../options/duration.ts"
import { refuseUnknown } from "../options/refuse.ts"
import { compact } from "../protocol/compact.ts"
import { decoder } from "../protocol/text.ts"
import { serve } from "../service/serve.ts"
import type { Driver, Plugin } from "../transport/driver.ts"
import { TransportError } from "../transport/errors.ts"
import { newBoardName } from "./board-name.ts"
import { collectLog } from "./log.ts"
import { overriding } from "./observed-transport.ts"
import { virtualClock } from "./virtual-clock.ts"

/** How a job ended whose worker died at one of its writes. */
export interface CrashEnd<Seen> {
  /** The write at which the worker died, such as `before write 3`; `none` in the run without a crash. */
  readonly crash: string
  readonly job: JobView
  /** The result of `look` after the job's end. */
  readonly seen: Seen
}

export interface CrashOptions<Seen> {
  readonly method: string
  readonly input?: unknown
  /** Called before each run: resets what the handler changes outside of its job. */
  readonly begin?: (() => void) | undefined
  /** Returns what the handler has done outside of its job, to be compared with the run without a crash. */
  readonly look: () => Seen
  /** Cancels the job at this write, counted from 0. By default no run is cancelled. */
  readonly cancelAt?: number | undefined
  /**
   * Whether the first worker stands still until the job has ended, and then goes on, instead of dying. Defaults to
   * false.
   */
  readonly freeze?: boolean | undefined
  /** Longest virtual time of a run: seconds, or text such as `"3 days"`. Defaults to an hour. */
  readonly within?: DurationInput | undefined
  /** Signals that are sent to the job, each once the outcome of the step `after` is stored; without it before the job begins. */
  readonly signals?: ReadonlyArray<CrashSignal> | undefined
  /** Wraps the driver, for tests that must notice a fault in it. */
  readonly wrap?: ((driver: Driver) => Driver) | undefined
}

export interface CrashSignal {
  readonly name: string
  readonly value?: unknown
  readonly after?: string | undefined
}

const CRASH_OPTIONS = {
  method: true,
  input: true,
  begin: true,
  look: true,
  cancelAt: true,
  freeze: true,
  within: true,
  signals: true,
  wrap: true,
} satisfies Readonly<Record<keyof CrashOptions<unknown>, true>>

/** How often a job is looked at that may be suspended. */
const LOOK_MS = 5_000

/** A wait of this length is not ticked through. */
const LONG_MS = 3_600_000

/**
 * Runs a method of an actor once to its end, and then twice for each write of its job: its worker dies before that write, or
 * after it, and another one goes on. The first end is that of the run without a crash. Holds a virtual clock meanwhile, which
 * skips waits of more than an hour, also for other jobs.
 *
 * ```ts
 * const charged: string[] = []
 * const ends = await crashEverywhere(orders, {
 *   method: "place",
 *   input: { item: "tea" },
 *   begin: () => charged.splice(0),
 *   look: () => new Set(charged),
 * })
 * for (const { crash, job, seen } of ends) expect([crash, job.state, seen]).toEqual([crash, "succeeded", new Set(["tea"])])
 * ```
 */
export const crashEverywhere = async <Seen>(
  actor: ActorDefinition,
  options: CrashOptions<Seen>,
): Promise<ReadonlyArray<CrashEnd<Seen>>> => {
  checkActor(actor)
  refuseUnknown(options, CRASH_OPTIONS, "crashEverywhere()")
  const uncut = await runWith(actor, options, Number.POSITIVE_INFINITY, "before")
  const ends: Array<CrashEnd<Seen>> = [uncut]
  for (let write = 0; write < uncut.writes; write++)
    for (const when of ["before", "after"] as const) ends.push(await runWith(actor, options, write, when))
  return ends
}

const runWith = async <Seen>(
  actor: ActorDefinition,
  options: CrashOptions<Seen>,
  dyingAt: number,
  when: "before" | "after",
): Promise<CrashEnd<Seen> & { readonly writes: number }> => {
  const { method, input, begin, look, cancelAt, freeze, within = "1 hour", signals = [] } = options
  const { wrap = (driver: Driver) => driver } = options
  begin?.()
  const board = `crash://${newBoardName()}?lease=1`
  // Modules that load lazily are loaded first, since a virtual clock does not wait for them.
  const memory = await builtin.memory()
  let writes = 0
  let cancel: (() => Promise<unknown>) | undefined
  const unsent = new Set(signals)
  let send: ((signal: CrashSignal) => Promise<unknown>) | undefined
  /** Sends the signals that follow a step whose outcome is stored by now. */
  const sendAfter = (stored: string): void => {
    for (const signal of unsent) {
      if (signal.after === undefined || !stored.includes(`"step":${JSON.stringify(signal.after)}`)) continue
      unsent.delete(signal)
      void send?.(signal)
    }
  }
  const died = Promise.withResolvers<void>()
  const thawed = Promise.withResolvers<void>()
  /** Sends the signals that follow what is stored. */
  const observed = (driver: Driver): Driver =>
    overriding(driver, {
      store: overriding(driver.store, {
        write: async (operations) => {
          const written = await driver.store.write(operations)
          if (written === "conflict") return written
          for (const { key, value } of operations)
            if (key.startsWith("flow/") && value !== null) sendAfter(decoder.decode(value))
          return written
        },
      }),
    })
  /** Counts the writes of the job, and dies at one of them. */
  const mortal = (driver: Driver): Driver => {
    let isDead = false
    const gone = () => (freeze ? thawed.promise : new Promise<never>(() => undefined))
    const write = async <T>(isOurs: boolean, work: () => Promise<T>): Promise<T> => {
      if (isDead) await gone()
      if (!isOurs) return work()
      const at = writes++
      if (at === cancelAt) await cancel?.()
      const isLast = at === dyingAt
      if (isLast) died.resolve()
      if (isLast) isDead = true
      if (isLast && when === "before") await gone()
      const answer = await work()
      if (isLast && when === "after") await gone()
      return answer
    }
    const unlessDead =
      <Args extends ReadonlyArray<unknown>, T>(call: (...args: Args) => Promise<T>) =>
      async (...args: Args): Promise<T> => {
        if (isDead) await gone()
        const answer = await call(...args)
        if (isDead) await gone()
        return answer
      }
    const { store } = driver
    return overriding(driver, {
      // Jobs that the handler submits.
      publish: (postings) => write(true, () => driver.publish(postings)),
      take: unlessDead((request, signal) => driver.take(request, signal)),
      extend: unlessDead((tokens) => driver.extend(tokens)),
      read: unlessDead((ids, what) => driver.read(ids, what)),
      commit: (commits) =>
        write(
          commits.some(({ record }) => record !== undefined),
          () => driver.commit(commits),
        ),
      store: overriding(store, {
        get: unlessDead((keys) => store.get(keys)),
        list: unlessDead((range) => store.list(range)),
        write: (operations) =>
          write(
            // Its journal, and the notes of the jobs that it waits for.
            operations.some(({ key }) => key.startsWith("flow/") || key.startsWith("after/")),
            () => store.write(operations),
          ),
      }),
    })
  }
  const plugin = (change: (driver: Driver) => Driver): Plugin => ({
    schemes: ["crash"],
    connect: async (url, settings) => {
      const driver = await memory.connect(new URL(url.href.replace(/^crash/, "memory")), settings)
      if (!("commit" in driver)) throw new TransportError("internal", "memory: no driver")
      return change(wrap(driver))
    },
  })
  await (await connect(board, { transports: { crash: plugin((driver) => driver) } })).close()
  using clock = virtualClock()
  const { log } = collectLog()
  const hire = (name: string, change: (driver: Driver) => Driver) => {
    const transports = { crash: plugin(change) }
    return clock.until(serve({ transport: board, transports, actors: [actor], name, grace: 0, signals: false, log }))
  }
  const client = await clock.until(connect(board, { transports: { crash: plugin((driver) => driver) } }))
  const job = await clock.until(client.submit(actor.name, { meth: method, ...compact({ input }) }))
  cancel = () => job.cancel().catch(() => undefined)
  send = ({ name, value }) => job.signal(name, value).catch(() => undefined)
  for (const signal of unsent) if (signal.after === undefined) await clock.until(send(signal))
  /** Lets time pass until the promise settles. All but the end of a long wait of the job is skipped, since ticking takes long. */
  const reached = async (promise: Promise<unknown>): Promise<void> => {
    const isOver = promise.then(() => true)
    const pause = () => new Promise<false>((resolve) => setTimeout(() => resolve(false), LOOK_MS))
    while (!(await clock.until(Promise.race([isOver, pause()])))) {
      const { waits } = await clock.until(job.find())
      if (waits === undefined || waits.jobs !== undefined) continue
      const left = Date.parse(waits.until) - clock.now
      if (left > LONG_MS) await clock.skip((left - LOOK_MS) / 1_000)
    }
  }
  const workers = [await hire("first", (driver) => mortal(observed(driver)))]
  const outcome = job.outcome({ timeout: within })
  await reached(Promise.race([outcome, died.promise]))
  // The writes of the second worker are not counted.
  const cut = writes
  workers.push(await hire("second", observed))
  await reached(outcome)
  thawed.resolve()
  await clock.advance("10 seconds")
  const view = await clock.until(job.find())
  const seen = look()
  for (const worker of workers) void worker.stop({ now: true }).catch(() => undefined)
  await clock.advance("1 minute")
  return {
    crash: dyingAt < cut ? `${when} write ${dyingAt}` : "none",
    job: view,
    seen,
    writes: cut,
  }
}
