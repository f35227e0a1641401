/**
 * A worker for chaos runs: `worker.ts <transport> <ledger> <concurrency> <lost cap> <queue> [fault]`. Its handlers note each run
 * in the ledger.
 */
import { appendFileSync } from "node:fs"
import { actor, serve } from "callboard"
import { StuckWatch } from "../../runtime/worker/fetch/stuck-watch.ts"
import { block } from "../support/block.ts"
import { eventually } from "../support/servers/process.ts"
import { type Fault, faulty, isFault } from "./faulty.ts"

const [transport = "", ledger = "", concurrency = "8", lostCap = "1000", queue = "default", fault = ""] =
  process.argv.slice(2)

/** Hard limit of the handlers that block or ignore their signal, in seconds. */
const TRAP_LIMIT = 0.5

const note = (id: string, task: string, retries: number, step?: string) =>
  appendFileSync(ledger, `${JSON.stringify({ id, task, retries, pid: process.pid, step })}\n`)

const work = (ms = 5 + Math.random() * 30) => new Promise<void>((resolve) => setTimeout(resolve, ms))

const chaos = actor("chaos", {
  methods: {
    /** Fails in its first `failures` attempts. */
    step: {
      params: ["previous"],
      retry: { max: 5, backoff: { base: 0.02, max: 0.1 } },
      run: async ({ failures = 0, workMs }: { failures?: number; workMs?: number; previous?: unknown }, job) => {
        note(job.id, "step", job.retries)
        await work(workMs)
        if (job.retries < failures) throw new Error(`attempt ${job.retries + 1} of ${failures + 1} fails`)
        return job.retries
      },
    },
    /** Does its work in durable steps, one after the other. */
    steps: async ({ steps, workMs }: { steps: number; workMs: number }, job) => {
      for (let at = 0; at < steps; at++) {
        await job.step(`${at}`, async () => {
          note(job.id, "steps", job.retries, `${at}`)
          await work(workMs)
        })
      }
    },
    /** Sleeps, waits for a signal and calls another job. */
    waits: async (_input: unknown, job) => {
      await job.step("before", () => note(job.id, "waits", job.retries, "before"))
      await job.sleep("nap", 1.5)
      const value = await job.waitFor("go", { timeout: "1 hour" })
      const called = await job.call("call", "chaos.step", { input: {} })
      await job.step("after", () => note(job.id, "waits", job.retries, "after"))
      if (value !== job.id || called !== 0) throw new Error(`it got ${value} and ${called}`)
    },
    /** Fails in every attempt. */
    fail: async (_input: unknown, job) => {
      note(job.id, "fail", job.retries)
      await work()
      throw new Error("always")
    },
    /** Kills its worker. */
    poison: async (_input: unknown, job) => {
      note(job.id, "poison", job.retries)
      // A death counts against the job only if its record says that this attempt has started.
      const { client } = service
      await eventually(
        async () => {
          const { state, attempts } = await client.job(job.id).find()
          return state === "started" && attempts >= job.attempt
        },
        { deadline: 600_000 },
      )
      process.kill(process.pid, "SIGKILL")
    },
    /** Runs for a second, so that it is running when a poison job kills the worker. */
    long: async (_input: unknown, job) => {
      note(job.id, "long", job.retries)
      await new Promise((resolve) => setTimeout(resolve, 1_000))
    },
    /** Blocks its thread for ever. */
    block: {
      timeLimit: { hard: TRAP_LIMIT },
      run: (_input: unknown, job) => {
        note(job.id, "block", job.retries)
        block()
      },
    },
    /** Ignores its signal, and never ends. */
    deaf: {
      timeLimit: { hard: TRAP_LIMIT },
      run: (_input: unknown, job) => {
        note(job.id, "deaf", job.retries)
        return new Promise<never>(() => undefined)
      },
    },
    /** An errback. */
    heard: (_input: unknown, job) => {
      note(job.id, "heard", job.retries)
    },
  },
})

const wrapped: Fault | undefined = isFault(fault) ? fault : undefined
// This fault is in the worker, not in a transport.
if (wrapped === "no-stuck-watch") Object.assign(StuckWatch.prototype, { check: () => undefined })
const service = await serve({
  transport: wrapped === undefined ? transport : `faulty:${transport}`,
  actors: [chaos],
  concurrency: Number(concurrency),
  queues: [queue],
  lostCap: Number(lostCap),
  reconnect: { maxTries: 0 },
  logLevel: "error",
  ...(wrapped === undefined ? {} : { transports: { faulty: faulty(wrapped) } }),
})
await service.ready()
console.log("ready")
await service.stopped
process.exit(0)
