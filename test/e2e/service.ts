/** A service in a process of its own, for tests that kill it: `service.ts <transport> [options as JSON]`. */
import { appendFileSync, existsSync, watch, writeFileSync } from "node:fs"
import { dirname } from "node:path"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { actor, type Job, type ServeOptions, serve } from "callboard"
import { block } from "../support/block.ts"
import { eventually } from "../support/servers/process.ts"

interface Step {
  /** File that gets a line with the worker's process id when the handler starts. */
  readonly started?: string
  /** The handler waits until this file exists. */
  readonly gate?: string
  /** The handler waits until a file with this name followed by its process id exists. */
  readonly ownGate?: string
  /** Milliseconds until a handler kills its worker. With a value above 0 its record says first that it has started. */
  readonly ms?: number
  /** File that gets a line with the job's id, attempt and process id when the handler is done. */
  readonly ledger?: string
}

const exists = (file: string): Promise<void> =>
  new Promise((resolve) => {
    if (existsSync(file)) return resolve()
    const watcher = watch(dirname(file), () => {
      if (!existsSync(file)) return
      watcher.close()
      resolve()
    })
    // The file may have appeared between the first check and the begin of the watch.
    if (existsSync(file)) {
      watcher.close()
      resolve()
    }
  })

/** Notes that it started, waits for its gate, notes that it is done. Returns the process id and the attempt. */
const step = async ({ started, gate, ownGate, ledger }: Step, job: Job<unknown>) => {
  if (started !== undefined) appendFileSync(started, `${process.pid}\n`)
  if (gate !== undefined) await exists(gate)
  if (ownGate !== undefined) await exists(`${ownGate}${process.pid}`)
  if (ledger !== undefined) appendFileSync(ledger, `${job.id} ${job.attempt} ${process.pid}\n`)
  return { pid: process.pid, attempt: job.attempt }
}

const collectGarbage = (): void => {
  const bun: unknown = Reflect.get(globalThis, "Bun")
  if (typeof bun === "object" && bun !== null && "gc" in bun && typeof bun.gc === "function") return void bun.gc(true)
  setFlagsFromString("--expose-gc")
  const gc: unknown = runInNewContext("gc")
  if (typeof gc === "function") gc()
}

const e2e = actor("e2e", {
  methods: {
    step,
    /**
     * Notes each of its durable steps with the process id; the second step waits for its gate. Fails in the end, unless `fails` is
     * false.
     */
    saga: async ({ ownGate, ledger, fails = true }: { ownGate: string; ledger: string; fails?: boolean }, job) => {
      const say = (what: string) => appendFileSync(ledger, `${what} ${process.pid}\n`)
      await job.step("a", () => say("a"), { revert: () => say("-a") })
      const waits = async () => {
        say("b")
        await exists(`${ownGate}${process.pid}`)
      }
      await job.step("b", waits, { revert: () => say("-b") })
      await job.step("c", () => say("c"))
      if (fails) throw new Error("no")
    },
    /** Like `step`, one at a time in the whole cluster. */
    single: { limit: { concurrency: 1 }, run: step },
    /** Blocks the thread for some milliseconds, one at a time in the whole cluster. */
    singleBlock: {
      limit: { concurrency: 1 },
      run: ({ ms, ledger }: { ms: number; ledger: string }) => {
        appendFileSync(ledger, "begin\n")
        block(ms)
        appendFileSync(ledger, "end\n")
      },
    },
    /** Returns the memory of the worker's process in bytes, after a garbage collection. */
    memory: () => {
      collectGarbage()
      const { rss, heapUsed } = process.memoryUsage()
      return { rss, heapUsed }
    },
    /** Notes that it began, takes `ms` milliseconds, notes that it is done. */
    nap: async ({ ms, ledger }: { ms: number; ledger: string }, job) => {
      appendFileSync(ledger, `began ${job.id} ${process.pid}\n`)
      await new Promise((resolve) => setTimeout(resolve, ms))
      appendFileSync(ledger, `done ${job.id} ${process.pid}\n`)
      return job.attempt
    },
    /** A member of a chord; `numbers` is the body, which notes how many results it got and whether they are in order. */
    number: async ({ n, gate }: { n: number; gate?: string }) => {
      if (gate !== undefined) await exists(gate)
      return n
    },
    numbers: {
      params: ["members", "ledger"],
      run: ({ members, ledger }: { members: ReadonlyArray<number>; ledger: string }) => {
        appendFileSync(ledger, `${members.length} ${members.every((n, at) => n === at)}\n`)
      },
    },
    /** Like `step`, for a job that must not run again when its worker died. */
    once: {
      onLost: "fail",
      run: async ({ started, gate }: Step) => {
        if (started !== undefined) appendFileSync(started, `${process.pid}\n`)
        if (gate !== undefined) await exists(gate)
        return process.pid
      },
    },
    /** Like `step`, for a job that is acked before it runs. */
    early: {
      acks: { when: "early" },
      run: step,
    },
    /** An errback: notes its own job id. */
    heard: ({ ledger }: { ledger: string }, job) => appendFileSync(ledger, `${job.id}\n`),
    /** Kills its worker, as a crash in native code would. */
    kill: async ({ ledger, ms = 0 }: Step, job) => {
      if (ms > 0) {
        await new Promise((resolve) => setTimeout(resolve, ms))
        await eventually(async () => (await service.client.job(job.id).find()).attempts >= job.attempt)
      }
      if (ledger !== undefined) appendFileSync(ledger, `${process.pid}\n`)
      process.kill(process.pid, "SIGKILL")
    },
    /** Blocks the thread for `ms` milliseconds, as a handler that computes does; with `after` it waits so long before. */
    block: async ({ ms, after, ledger }: { ms: number; after?: number; ledger: string }) => {
      if (after !== undefined) await new Promise((resolve) => setTimeout(resolve, after))
      appendFileSync(ledger, `${process.pid}\n`)
      block(ms)
      return process.pid
    },
  },
})

const [transport = "", text = "{}"] = process.argv.slice(2)
const options: ServeOptions & { readonly readyFile?: string } = JSON.parse(text)
const service = await serve({
  transport,
  actors: [e2e],
  logFormat: "logfmt",
  onFailure: [
    ({ job, error }) => {
      console.log(`failure ${job.id} ${error.name}`)
      if (job.meta?.["upset"] === true) throw new Error("a handler that fails")
    },
  ],
  ...options,
})
await service.ready()
if (options.readyFile !== undefined) writeFileSync(options.readyFile, "")
console.log(`ready ${service.url ?? ""}`)
const error = await Promise.race([
  service.failed,
  service.stopped.then((report) => console.log(`stopped ${JSON.stringify(report)}`)),
])
if (error !== undefined) {
  console.error(error.message)
  process.exit(1)
}
