/** Actors for the tests of isolation, in a file of their own: child processes load it. */
import { spawn } from "node:child_process"
import { appendFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Schema } from "effect"
// The import is not from "callboard", which would be half of the modules that a process loads.
import { type Actor, actor } from "../../../../runtime/actor/actor.ts"
import { Ignore, Reject } from "../../../../runtime/actor/job.ts"
import { block } from "../../../support/block.ts"
import { watchedSignal } from "../../../support/watched-signal.ts"

const forever = () => new Promise<never>((_resolve) => setInterval(() => undefined, 60_000))

const endless = (ledger: string) =>
  Effect.sync(() => appendFileSync(ledger, "began\n")).pipe(
    Effect.andThen(Effect.never),
    Effect.ensuring(Effect.sync(() => appendFileSync(ledger, "finalized\n"))),
  )

export const isolated = actor("isolated", {
  module: import.meta.url,
  isolation: "process",
  start: ({ onStop, fail }) => {
    const late: Promise<unknown> = Promise.resolve()
    const use = { pid: process.pid, runs: 0, fail, late, ledger: undefined as string | undefined }
    onStop(() => {
      if (use.ledger !== undefined) appendFileSync(use.ledger, "released\n")
    })
    return use
  },
  stop: (use) => {
    if (use.ledger !== undefined) appendFileSync(use.ledger, `stopped ${use.pid}\n`)
  },
  methods: {
    pid: () => process.pid,
    reads: (id: string, job) => job.job(id).result({ timeout: 30 }),
    variable: (name: string) => process.env[name] ?? null,
    inline: { isolation: "inline", run: () => process.pid },
    echo: (input: unknown) => input,
    /**
     * One run at a time for each tenant. The key is computed from the input as it was sent, before the schema
     * transforms it.
     */
    limited: {
      input: Schema.Struct({ n: Schema.FiniteFromString }),
      limit: {
        concurrency: 1,
        key: ({ n }: { readonly n: unknown }) => (typeof n === "string" ? n : ""),
      },
      run: ({ n }) => n,
    },
    bytes: {
      accepts: ["application/octet-stream"],
      run: (input: unknown) => input instanceof Uint8Array && [...input],
    },
    count: (_input: unknown, job) => ({ pid: process.pid, started: job.use.pid, runs: ++job.use.runs }),
    /** Records when the actor's resources are released. */
    keep: ({ ledger }: { ledger: string }, job) => {
      job.use.ledger = ledger
      return process.pid
    },
    /** A resource breaks, and the handler goes on without it. */
    wear: (_input: unknown, job) => {
      job.use.fail(new Error("the connection is lost"))
      return process.pid
    },
    /** Leaves a promise behind that is never awaited. */
    careless: async (_input: unknown, job) => {
      const child = await job.submit("isolated.pid", { delay: 60 })
      void child.result()
      return process.pid
    },
    /** Reports its progress and notes meta data after its end. */
    late: (_input: unknown, job) => {
      job.use.late = new Promise((resolve) => {
        setTimeout(() => {
          job.progress(0.5)
          job.patchMeta({ late: true })
          resolve(process.pid)
        }, 20)
      })
    },
    whenLate: (_input: unknown, job) => job.use.late,
    job: (
      _input: unknown,
      { id, attempt, run, retries, actorName, method, queue, headers, meta, deadline, signal },
    ) => ({
      ...{ id, attempt, run, retries, actorName, method, queue, meta, aborted: signal.aborted },
      ...{ task: headers["task"], left: deadline - Date.now() },
    }),
    after: (_input: unknown, job) => job.after,
    /** Changes meta data: its own, that of another job, and in a way that is refused. */
    meta: async ({ other }: { other: string }, job) => {
      job.patchMeta({ seen: job.meta["note"], note: null })
      const refused = (() => {
        try {
          job.patchMeta({ large: "x".repeat(70_000) })
          return "not refused"
        } catch (error) {
          return error instanceof Error && "code" in error && error.code
        }
      })()
      const patched = await job.job(other).patchMeta({ by: job.id })
      const results = await job.job(other).results()
      return { meta: job.meta, refused, other: patched.meta, results: results.length }
    },
    spin: ({ ledger }: { ledger?: string }) => {
      if (ledger !== undefined) appendFileSync(ledger, `${process.pid}\n`)
      block()
    },
    /** Ignores its signal. */
    stuck: ({ ledger }: { ledger: string }) => {
      appendFileSync(ledger, `${process.pid}\n`)
      return forever()
    },
    /** Stops when its signal fires, and records why. */
    heed: ({ ledger }: { ledger: string }, job) => {
      appendFileSync(ledger, `${process.pid}\n`)
      return new Promise((resolve) => {
        job.signal.addEventListener("abort", () => {
          appendFileSync(ledger, `${job.signal.reason.name}: ${job.signal.reason.message}\n`)
          resolve("cleaned up")
        })
      })
    },
    exit: ({ code, ledger }: { code: number; ledger: string }) => {
      appendFileSync(ledger, `${process.pid}\n`)
      process.exit(code)
    },
    uncaught: () => {
      queueMicrotask(() => {
        throw new RangeError("nobody caught this")
      })
      return forever()
    },
    /** Leaves a process behind that would go on for a minute. */
    family: ({ ledger }: { ledger: string }) => {
      const child = spawn("sleep", ["60"], { stdio: "ignore" })
      appendFileSync(ledger, `${child.pid}\n`)
      block()
    },
    fail: () => {
      throw new TypeError("no such thing", { cause: new Error("the cause") })
    },
    several: () => Promise.any([Promise.reject(new TypeError("one")), Promise.reject(new Error("two"))]),
    tagged: () => Effect.fail({ _tag: "Tagged", message: "by tag" }),
    reject: () => Promise.reject(new Reject("not for me")),
    ignore: () => Promise.reject(new Ignore()),
    again: (_input: unknown, job) => {
      if (job.retries === 0) throw job.retry({ after: 0.01 })
      return job.attempt
    },
    symbol: () => ({ n: Symbol("x") }),
    large: () => ({ n: 2n ** 70n, at: new Date(0) }),
    nothing: () => undefined,
    effect: () => Effect.sync(() => process.pid),
    endless: ({ ledger }: { ledger: string }) => endless(ledger),
    hooked: {
      run: ({ ledger }: { ledger: string }) => ledger,
      onSuccess: (ledger: string) => endless(ledger),
    },
    steps: async ({ ledger }: { ledger: string }, { progress, log, signal }) => {
      for (let step = 1; step <= 50_000; step++) progress(step / 100_000, { step })
      log.info("halfway", { step: 50_000 })
      log.debug("not at this level")
      appendFileSync(ledger, "halfway\n")
      await new Promise((resolve) => signal.addEventListener("abort", resolve))
    },
    wide: (_input: unknown, { progress }) => {
      progress(1, "w".repeat(1_000_000))
      return "done"
    },
    parent: async (_input: unknown, job) => {
      const child = await job.actor<Actor<"isolated", { echo: unknown }, { echo: unknown }>>("isolated").echo.submit({
        from: job.id,
      })
      return { child: child.id, result: await child.result({ timeout: 10 }), state: (await child.find()).state }
    },
    /** The result of another job. */
    other: (id: string, { job }) => job(id).result({ timeout: 10 }),
    /** Waits with a signal that never fires, and counts the listeners that the waits leave on it. */
    waits: async (id: string, { job }) => {
      const { signal, counts } = watchedSignal()
      const handle = job(id)
      await handle.result({ signal })
      await handle.outcome({ signal })
      await handle.results({ signal })
      await job("unknown")
        .result({ signal })
        .catch(() => undefined)
      return counts()
    },
    misspelt: (_input: unknown, job) => job.submit("isolated.echo", { priority: 99 }),
    /** The schema turns the input into a value that is no JSON. */
    dated: {
      input: Schema.Struct({ at: Schema.DateFromString }),
      output: Schema.Struct({ year: Schema.Int }),
      run: ({ at }) => ({ year: at.getUTCFullYear() }),
    },
  },
})

/** Where `broken` writes that it has released what its failed start had acquired, by the process id of the worker. */
export const releasedIn = (worker: number): string => join(tmpdir(), `callboard-released-${worker}`)

/** `start` fails in every process. */
export const broken = actor("broken", {
  module: import.meta.url,
  isolation: "process",
  start: ({ onStop }) => {
    onStop(() => appendFileSync(releasedIn(process.ppid), "released\n"))
    throw new Error("no licence")
  },
  methods: { run: () => "never" },
})

/** Only some methods are isolated: the worker starts the actor as well. */
export const mixed = actor("mixed", {
  module: import.meta.url,
  start: () => ({ pid: process.pid }),
  methods: {
    here: (_input: unknown, job) => [process.pid, job.use.pid],
    there: { isolation: "process", run: (_input: unknown, job) => [process.pid, job.use.pid] },
  },
})
