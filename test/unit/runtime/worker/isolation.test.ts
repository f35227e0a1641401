/** Handlers in processes of their own: their input, their outcome, and that they are really killed. */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import {
  type ActorDefinition,
  actor,
  type Client,
  connect,
  discoverActors,
  type ServeOptions,
  type Service,
  serve,
} from "callboard"
import { Effect, Exit, Result } from "effect"
import { afterEach, describe, expect, test } from "vitest"
import { runArguments } from "../../../../runtime/cli/runtimes.js"
import { plan } from "../../../../runtime/client/submitting/plan.ts"
import { EventSender } from "../../../../runtime/cluster/events.ts"
import { SETTINGS } from "../../../../runtime/config/settings.ts"
import { generateId } from "../../../../runtime/id.ts"
import { makeLog } from "../../../../runtime/log/log.ts"
import { currentRuntime } from "../../../../runtime/platform/runtime.js"
import { NO_EMBED } from "../../../../runtime/protocol/body.ts"
import { parseTask } from "../../../../runtime/protocol/headers.ts"
import { recordOfTask } from "../../../../runtime/protocol/record.ts"
import { ActiveDelivery, HandlerRun } from "../../../../runtime/worker/active-delivery.ts"
import { takeWorker } from "../../../../runtime/worker/isolation/child-process.ts"
import { ProcessPool } from "../../../../runtime/worker/isolation/process-pool.ts"
import { JobContext, WorkerPort } from "../../../../runtime/worker/run/job-context.ts"
import { onEveryBoard } from "../../../scenarios/boards.ts"
import { eventually, isRunning, spawnProcess, spawnScript, temporaryFolder } from "../../../support/servers/process.ts"
import { broken, isolated, mixed, releasedIn } from "./isolated-actor.ts"

const WAIT = { timeout: 60 } as const

const open: Array<() => unknown> = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

const folder = (): string => {
  const made = temporaryFolder()
  open.push(() => made.remove())
  return made.path
}

const newLedger = (): string => `${folder()}/ledger`

const linesOf = (file: string): ReadonlyArray<string> =>
  existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : []

const firstLine = (file: string): Promise<string> =>
  eventually(() => linesOf(file)[0], { message: "the handler begins" })

const start = async (options: ServeOptions = {}): Promise<Service> => {
  const service = await serve({
    transport: `memory://${generateId()}`,
    actors: [isolated],
    signals: false,
    logLevel: "none",
    ...options,
  })
  open.push(() => service.stop({ now: true }))
  await service.ready()
  return service
}

/** A run as a worker makes it. */
const runOf = (name: string): HandlerRun => {
  const now = Date.now()
  const method = isolated.methods.get(name)
  if (method === undefined) throw new Error(`there is no method ${name}`)
  const id = generateId(now)
  const posting = Result.getOrThrow(
    plan({ task: `isolated.${name}` }, { now, id, origin: "test", defaults: { queue: "default" } }),
  )
  const task = Result.getOrThrow(parseTask(posting.message))
  const record = recordOfTask(posting, task, now)
  const limits = { startedAt: now, hardMs: 10_000, softMs: Number.POSITIVE_INFINITY }
  const delivery = { stop: undefined, leave: () => undefined }
  return new HandlerRun({ delivery, posting, task, method, embed: NO_EMBED, record, claimed: false, ...limits })
}

const result = async (client: Client, task: string, fields = {}): Promise<unknown> =>
  (await client.submit(task, fields)).result(WAIT)

test("the key of a limit gets the input as it came, the handler what its schema makes of it", async () => {
  const { client } = await start()
  const jobs = await Promise.all(["1", "1", "2"].map((n) => client.submit("isolated.limited", { input: { n } })))
  expect(await Promise.all(jobs.map((job) => job.result(WAIT)))).toEqual([1, 1, 2])
})

describe("a handler in a process of its own", () => {
  test("gets its input and its job, and its result comes back; the process is used again", async () => {
    const { client } = await start({ concurrency: 1 })
    const pid = await result(client, "isolated.pid")
    expect(pid).not.toBe(process.pid)
    expect(await result(client, "isolated.pid")).toBe(pid)
    expect(await result(client, "isolated.echo", { input: { text: "ü✓", list: [1, null] } })).toEqual({
      text: "ü✓",
      list: [1, null],
    })
    expect(await result(client, "isolated.nothing")).toBe(null)
    expect(await result(client, "isolated.bytes", { input: new Uint8Array([0, 255]) })).toEqual([0, 255])
    const job = await client.submit("isolated.job", { meta: { a: 1 }, timeLimit: 20, queue: "default" })
    expect(await job.result(WAIT)).toMatchObject({
      ...{ id: job.id, attempt: 1, run: 1, retries: 0, actorName: "isolated", method: "job", queue: "default" },
      ...{ meta: { a: 1 }, aborted: false, task: "isolated.job", left: expect.closeTo(20_000, -3.6) },
    })
  })

  test("reads the result of another job by its id", async () => {
    const { client } = await start()
    const first = await client.submit("isolated.echo", { input: 41 })
    expect(await first.result(WAIT)).toBe(41)
    expect(await result(client, "isolated.reads", { input: first.id })).toBe(41)
    const large = await client.submit("isolated.large")
    expect(await large.result(WAIT)).toEqual({ n: 2n ** 70n, at: new Date(0) })
    expect(await result(client, "isolated.reads", { input: large.id })).toEqual({ n: 2n ** 70n, at: new Date(0) })
  })

  test("leaves no listener on the signal that it passes to a wait", async () => {
    const { client } = await start()
    const { id } = await client.submit("isolated.echo")
    expect(await result(client, "isolated.waits", { input: id })).toEqual({ added: 4, left: 0 })
  })

  test("gets the environment of the worker without the variables of secret settings", async () => {
    const secrets = SETTINGS.filter(({ secret }) => secret).map(({ variable = "" }) => variable)
    expect(secrets).toEqual(["CALLBOARD_RESULT_BACKEND", "CALLBOARD_HTTP_TOKENS", "CALLBOARD_HTTP_LINK_SECRET"])
    for (const name of ["CALLBOARD_TEST", ...secrets]) {
      process.env[name] = "seen"
      open.push(() => delete process.env[name])
    }
    const { client } = await start()
    expect(await result(client, "isolated.variable", { input: "CALLBOARD_TEST" })).toBe("seen")
    for (const name of secrets) expect(await result(client, "isolated.variable", { input: name })).toBeNull()
  })

  test("has the actor's resources of its own, started once per process and released in good order", async () => {
    const ledger = newLedger()
    const service = await start({ concurrency: 1 })
    const { client } = service
    const first = await result(client, "isolated.count")
    expect(first).toMatchObject({ runs: 1 })
    expect(first).toHaveProperty("started", (first as { pid: number }).pid)
    expect(await result(client, "isolated.count")).toMatchObject({ runs: 2 })
    const pid = await result(client, "isolated.keep", { input: { ledger } })
    await service.stop()
    expect(linesOf(ledger)).toEqual([`stopped ${pid}`, "released"])
    expect(isRunning(Number(pid))).toBe(false)
  })

  test("the worker itself starts an actor only for its inline methods", async () => {
    const { client } = await start({ actors: [isolated, mixed] })
    expect(await result(client, "isolated.inline")).toBe(process.pid)
    expect(await result(client, "mixed.here")).toEqual([process.pid, process.pid])
    const there = await result(client, "mixed.there")
    expect(there).not.toContain(process.pid)
    expect(new Set(there as Array<number>).size).toBe(1)
  })

  test("an Effect runs in the process, and schemas are applied there", async () => {
    const { client } = await start({ concurrency: 1 })
    const pid = await result(client, "isolated.pid")
    expect(await result(client, "isolated.effect")).toBe(pid)
    expect(await result(client, "isolated.dated", { input: { at: "2031-09-06T00:00:00Z" } })).toEqual({ year: 2031 })
    expect(
      await (await client.submit("isolated.dated", { input: { at: 7 }, retry: { max: 3 } })).outcome(WAIT),
    ).toMatchObject({
      state: "failed",
      error: { name: "InvalidInput", reason: "invalid-input", field: "at" },
    })
  })

  test("errors keep name, message, stack and cause; Retry, Reject and Ignore keep their meaning", async () => {
    const { client } = await start({ concurrency: 2 })
    const outcome = async (method: string) => (await client.submit(`isolated.${method}`)).outcome(WAIT)
    expect(await outcome("fail")).toMatchObject({
      state: "failed",
      error: {
        name: "TypeError",
        message: "no such thing",
        reason: "handler",
        traceback: expect.stringContaining("isolated-actor.ts"),
        cause: { name: "Error", message: "the cause" },
      },
    })
    expect(await outcome("several")).toMatchObject({
      error: {
        name: "AggregateError",
        errors: [
          { name: "TypeError", message: "one" },
          { name: "Error", message: "two" },
        ],
      },
    })
    expect(await outcome("tagged")).toMatchObject({ error: { name: "Tagged", message: "by tag" } })
    expect(await outcome("symbol")).toEqual({
      state: "succeeded",
      result: expect.stringMatching(/^Unserializable return value: /),
    })
    const followed = await client.submit("isolated.symbol", { callbacks: [{ task: "isolated.pid" }] })
    expect(await followed.outcome(WAIT)).toMatchObject({ error: { reason: "result-unserialisable" } })
    const rejected = await client.submit("isolated.reject", { retry: { max: 3 } })
    expect(await rejected.outcome(WAIT)).toMatchObject({ error: { name: "Reject", message: "not for me" } })
    expect(await rejected.find()).toMatchObject({ dead: "rejected", attempts: 1 })
    expect(await outcome("ignore")).toEqual({ state: "succeeded", result: null })
    expect(await outcome("again")).toEqual({ state: "succeeded", result: 2 })
  })

  test("a progress detail that is too large is cut, and the job succeeds", async () => {
    const { client } = await start()
    const job = await client.submit("isolated.wide")
    expect(await job.outcome({ timeout: 20 })).toEqual({ state: "succeeded", result: "done" })
    expect(await job.find()).toMatchObject({
      attempts: 1,
      progress: { detail: expect.stringMatching(/^"w+… \(cut: /) },
    })
  })

  test("it changes its meta data, and that of other jobs, and reads their results", async () => {
    const { client } = await start()
    const other = await client.submit("isolated.pid")
    await other.result(WAIT)
    const job = await client.submit("isolated.meta", { input: { other: other.id }, meta: { note: 1, kept: true } })
    expect(await job.result(WAIT)).toEqual({
      meta: { seen: 1, kept: true },
      refused: "invalid-input",
      other: { by: job.id },
      results: 1,
    })
    expect((await job.find()).meta).toEqual({ seen: 1, kept: true })
  })

  test("progress and log lines arrive while it runs", async () => {
    const ledger = newLedger()
    const lines: Array<string> = []
    const quiet = makeLog({ level: "none" })
    const log = { ...quiet, level: "info" as const, info: (message: string) => lines.push(message), with: () => log }
    const { client } = await start({ log })
    const job = await client.submit("isolated.steps", { input: { ledger } })
    const progress = await eventually(async () => (await job.find()).progress, { message: "progress is reported" })
    expect(progress.detail).toHaveProperty("step")
    await firstLine(ledger)
    await eventually(() => lines.includes("halfway"), { message: "the log line arrives" })
    await eventually(async () => (await job.find()).progress?.fraction === 0.5, { message: "the last progress counts" })
    expect(lines).not.toContain("not at this level")
    await job.cancel()
  })

  test("job.submit goes through the worker: the child knows its parent, and what is refused is told", async () => {
    const { client } = await start({ concurrency: 2 })
    const parent = await client.submit("isolated.parent")
    const answer = await parent.result(WAIT)
    expect(answer).toMatchObject({ result: { from: parent.id }, state: "succeeded" })
    const { child } = answer as { child: string }
    expect(await client.job(child).find()).toMatchObject({ parentId: parent.id, rootId: parent.id })
    expect(await (await client.submit("isolated.misspelt")).outcome(WAIT)).toMatchObject({
      error: { name: "CallboardError", message: expect.stringContaining("priority") },
    })
  })

  test("job.job(id) asks the worker about any job", async () => {
    const { client } = await start()
    const asks = async (id: string) => (await client.submit("isolated.other", { input: id })).outcome(WAIT)
    const before = await client.submit("isolated.echo", { input: { n: 7 } })
    expect(await asks(before.id)).toMatchObject({ state: "succeeded", result: { n: 7 } })
    expect(await asks("unheard-of")).toMatchObject({ error: { message: expect.stringContaining("unheard-of") } })
  })
})

describe("ending it from outside", () => {
  test("a spinning handler is killed at its hard limit: the slot is free soon, neighbours are untouched", async () => {
    const ledger = newLedger()
    const { client } = await start({ concurrency: 2 })
    const neighbour = await client.submit("isolated.heed", { input: { ledger: newLedger() }, timeLimit: { soft: 3 } })
    // A process is running already, so that the time below is that of the kill and the next start.
    await result(client, "isolated.pid")
    const spinning = await client.submit("isolated.spin", { input: { ledger }, timeLimit: 0.5 })
    const pid = Number(await firstLine(ledger))
    const begun = performance.now()
    const next = await client.submit("isolated.pid")
    expect(await spinning.outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { name: "TimeLimitExceeded", reason: "timeout", message: expect.stringContaining("0.5 s") },
    })
    const ended = performance.now()
    expect(await next.result(WAIT)).not.toBe(pid)
    // The handler spins for ever, and a busy machine takes its time to start a process.
    expect(ended - begun).toBeLessThan(10_000)
    expect(performance.now() - ended).toBeLessThan(10_000)
    expect(isRunning(pid)).toBe(false)
    expect(await neighbour.result(WAIT)).toBe("cleaned up")
    expect((await neighbour.find()).attempts).toBe(1)
  })

  test("what the handler has started dies with it", async () => {
    const ledger = newLedger()
    const { client } = await start()
    const job = await client.submit("isolated.family", { input: { ledger }, timeLimit: 1 })
    const grandchild = Number(await firstLine(ledger))
    expect(isRunning(grandchild)).toBe(true)
    await job.outcome(WAIT)
    await eventually(() => !isRunning(grandchild), { message: "the handler's own child ends" })
  })

  test("the time that a process takes to start does not count", async () => {
    const { client } = await start()
    expect(await result(client, "isolated.pid", { timeLimit: 0.2 })).toBeGreaterThan(0)
  })

  test("the soft limit fires its signal, and what it then returns counts", async () => {
    const ledger = newLedger()
    const { client } = await start()
    expect(await result(client, "isolated.heed", { input: { ledger }, timeLimit: { soft: 0.2, hard: 20 } })).toBe(
      "cleaned up",
    )
    expect(linesOf(ledger)[1]).toBe("TimeoutError: it exceeded its soft time limit of 0.2 s")
  })

  test("cancelling fires its signal, interrupts an Effect of the handler or a hook, and keeps the process", async () => {
    const { client } = await start({ concurrency: 1 })
    const ledger = newLedger()
    const job = await client.submit("isolated.heed", { input: { ledger } })
    const pid = Number(await firstLine(ledger))
    await job.cancel()
    await eventually(() => linesOf(ledger)[1] === "AbortError: the job was cancelled", { message: "its signal fires" })
    for (const method of ["endless", "hooked"]) {
      const finalizer = newLedger()
      const endless = await client.submit(`isolated.${method}`, { input: { ledger: finalizer } })
      await firstLine(finalizer)
      await endless.cancel()
      await eventually(() => linesOf(finalizer)[1] === "finalized", {
        message: `the Effect of ${method} is interrupted`,
      })
    }
    expect(await result(client, "isolated.pid")).toBe(pid)
  })

  test("one that ignores its signal keeps its slot until its hard limit, and is killed then", async () => {
    const ledger = newLedger()
    const { client } = await start({ concurrency: 1 })
    const job = await client.submit("isolated.stuck", { input: { ledger }, timeLimit: 3 })
    const pid = Number(await firstLine(ledger))
    await job.cancel()
    const next = await client.submit("isolated.pid")
    await expect(next.result({ timeout: 1.5 })).rejects.toMatchObject({ _tag: "WaitTimeout" })
    expect(isRunning(pid)).toBe(true)
    expect(await next.result(WAIT)).not.toBe(pid)
    expect(isRunning(pid)).toBe(false)
  })

  test("cancel with terminate kills it at once", async () => {
    const ledger = newLedger()
    const { client } = await start({ concurrency: 1 })
    const job = await client.submit("isolated.spin", { input: { ledger } })
    const pid = Number(await firstLine(ledger))
    await eventually(async () => (await job.find()).state === "started", { message: "it is told to run" })
    await job.cancel({ terminate: true })
    await eventually(() => !isRunning(pid), { message: "the process ends" })
    expect(await job.outcome(WAIT)).toEqual({ state: "cancelled" })
    expect(await result(client, "isolated.pid")).not.toBe(pid)
    expect(await job.find()).toMatchObject({ state: "cancelled", attempts: 1 })
  })
})

onEveryBoard((newBoard, transport) => {
  test("S173 the job's process dies", async () => {
    const ledger = newLedger()
    const { client } = await start({ transport: newBoard() })
    const exits = { code: 3, ledger }
    const job = await client.submit("isolated.exit", { input: exits })
    expect(await job.outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { reason: "process-died", message: expect.stringMatching(/unexpected termination.*exit code 3/) },
    })
    expect(linesOf(ledger)).toHaveLength(1)
    const again = await client.submit("isolated.exit", {
      input: exits,
      retry: { max: 1, backoff: { base: 0.01, jitter: false } },
    })
    expect(await again.outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "process-died" } })
    expect(await again.find()).toMatchObject({ attempts: 2, retries: 1 })
    expect(linesOf(ledger)).toHaveLength(3)
  })

  // The transport does not matter for the rest.
  if (transport !== "memory") return

  test("S172 kill the job's process", async () => {
    const ledger = newLedger()
    const service = await start({ transport: newBoard(), concurrency: 1 })
    const { client } = service
    const job = await client.submit("isolated.stuck", { input: { ledger } })
    const pid = Number(await firstLine(ledger))
    process.kill(pid, "SIGKILL")
    expect(await job.outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { name: "ProcessDied", reason: "process-died", message: expect.stringContaining("signal 9") },
    })
    await eventually(() => service.worker?.describe().failed === 1, { message: "it counts as failed" })
    // The process is killed while it is idle. No job fails for that, even if the next job comes before the worker has noticed.
    const idle = Number(await result(client, "isolated.pid"))
    process.kill(idle, "SIGKILL")
    expect(await result(client, "isolated.pid")).not.toBe(idle)
    await eventually(() => service.worker?.describe().processed === 3, { message: "all are settled" })
    expect(service.worker?.describe().failed).toBe(1)
  })
})

describe("the processes", () => {
  test("an error that nothing caught ends the process, and the attempt says which", async () => {
    const { client } = await start()
    expect(await (await client.submit("isolated.uncaught")).outcome(WAIT)).toMatchObject({
      error: {
        reason: "process-died",
        message: expect.stringContaining("exit code 1"),
        cause: { name: "RangeError", message: "nobody caught this" },
      },
    })
  })

  test("an actor that does not start fails the attempt with its own words, and the worker goes on", async () => {
    const { client } = await start({ actors: [isolated, broken] })
    const ledger = releasedIn(process.pid)
    open.push(() => rmSync(ledger, { force: true }))
    expect(await (await client.submit("broken")).outcome(WAIT)).toMatchObject({
      error: { message: "no licence", reason: "actor-not-started" },
    })
    expect(linesOf(ledger)).toEqual(["released"])
    expect(await result(client, "isolated.echo", { input: { a: 1 } })).toEqual({ a: 1 })
  })

  test("that wait for work too long are ended, in good order", async () => {
    const { client } = await start()
    const log = makeLog({ level: "none" })
    const pool = new ProcessPool({ client, log, concurrency: 1, idleMs: 100 })
    const events = new EventSender({ connection: client.connection, hostname: "test" })
    open.push(() => pool.close())
    const run = runOf("keep")
    const ledger = newLedger()
    const { message, queue } = run.posting
    const of = { token: "", fence: "", fresh: true, level: 0, sequence: 1, deliveries: 1 }
    const stepsOf = () => {
      throw new Error("it has no steps")
    }
    const active = new ActiveDelivery({ ...of, queue, message }, 0)
    const job = new JobContext(new WorkerPort(active, run, { client, events, log, stepsOf }), "isolated", undefined)
    const exit = await Effect.runPromiseExit(pool.run(isolated, run, { ledger }, job))
    expect(pool.size).toBe(1)
    await eventually(() => pool.size === 0, { message: "the process is ended" })
    const pid = Exit.isSuccess(exit) ? exit.value : undefined
    expect(linesOf(ledger)).toEqual([`stopped ${pid}`, "released"])
  })

  test("a resource that breaks costs its process, not the run", async () => {
    const { client } = await start({ concurrency: 1 })
    const worn = await result(client, "isolated.wear")
    expect(await result(client, "isolated.pid")).not.toBe(worn)
  })

  test("what a handler leaves waiting does not harm the next one", async () => {
    const { client } = await start({ concurrency: 1 })
    const pid = await result(client, "isolated.careless")
    expect(await result(client, "isolated.careless")).toBe(pid)
    expect(await result(client, "isolated.pid")).toBe(pid)
  })

  test("what a handler sends after its end harms neither the worker nor the next run", async () => {
    const { client } = await start({ concurrency: 1 })
    const pid = await result(client, "isolated.pid")
    const late = await client.submit("isolated.late")
    await late.result(WAIT)
    const next = await client.submit("isolated.whenLate")
    expect(await next.result(WAIT)).toBe(pid)
    for (const job of [late, next]) {
      const { progress, meta } = await job.find()
      expect({ progress, meta }).toEqual({})
    }
  })

  test("never outnumber the concurrency, and make room for another actor", async () => {
    const { client } = await start({ actors: [isolated, mixed], concurrency: 2 })
    const pids = await Promise.all(Array.from({ length: 10 }, () => result(client, "isolated.pid")))
    expect(new Set(pids).size).toBeLessThanOrEqual(2)
    expect(await result(client, "mixed.there")).toHaveLength(2)
  })

  test("a soft stop lets them finish", async () => {
    const ledger = newLedger()
    const transport = `memory://${generateId()}`
    const service = await start({ transport, concurrency: 1 })
    const observer = await connect(transport)
    open.push(() => observer.close())
    const job = await service.client.submit("isolated.heed", { input: { ledger }, timeLimit: { soft: 1 } })
    const pid = Number(await firstLine(ledger))
    expect(await service.stop()).toEqual({ finished: 1, handedBack: 0, stuck: 0, lost: 0 })
    expect(await observer.job(job.id).result(WAIT)).toBe("cleaned up")
    expect(isRunning(pid)).toBe(false)
  })

  test("a stop in a hurry kills them and hands their jobs back, uncounted", async () => {
    const ledger = newLedger()
    const transport = `memory://${generateId()}`
    const service = await start({ transport, concurrency: 1 })
    const observer = await connect(transport)
    open.push(() => observer.close())
    const job = await service.client.submit("isolated.spin", { input: { ledger } })
    const pid = Number(await firstLine(ledger))
    expect(await service.stop({ now: true })).toEqual({ finished: 0, handedBack: 1, stuck: 0, lost: 0 })
    expect(isRunning(pid)).toBe(false)
    expect(await observer.job(job.id).find()).toMatchObject({ state: "queued", attempts: 0, retries: 0 })
  })

  test("end by themselves when their worker is killed, also one that spins", async () => {
    const url = `sqlite:${folder()}/board.db`
    const client = await connect(url)
    open.push(() => client.close())
    const ledgers = [newLedger(), newLedger()]
    const service = spawnScript(fileURLToPath(new URL("isolated-service.ts", import.meta.url)), [url])
    open.push(() => service.end())
    await client.submit("isolated.spin", { input: { ledger: ledgers[0] } })
    await client.submit("isolated.stuck", { input: { ledger: ledgers[1] } })
    const pids = (await Promise.all(ledgers.map(firstLine))).map(Number)
    expect(pids.map(isRunning)).toEqual([true, true])
    service.kill("SIGKILL")
    await service.exited
    await eventually(() => !pids.some(isRunning), { message: "both end" })
  })
})

// Deno's options are not known to a program.
test("a process has the options of the worker's runtime, and no secret from a file of variables", async () => {
  const runtime = currentRuntime()
  const [place, url] = [folder(), `sqlite:${folder()}/board.db`]
  writeFileSync(`${place}/.env`, "CALLBOARD_HTTP_LINK_SECRET=seen\nCALLBOARD_TEST=seen\n")
  writeFileSync(`${place}/loaded.mjs`, "process.env.LOADED_IN = String(process.pid)\n")
  const [program = "", ...args] = runArguments(
    runtime,
    fileURLToPath(new URL("isolated-service.ts", import.meta.url)),
  ).toReversed()
  const options = runtime === "deno" ? ["--env-file=.env"] : ["--env-file=.env", "--import", "./loaded.mjs"]
  const service = spawnProcess(process.execPath, [...args.toReversed(), ...options, program, url], { cwd: place })
  open.push(() => service.end())
  const client = await connect(url)
  open.push(() => client.close())
  const variable = (name: string) => result(client, "isolated.variable", { input: name })
  expect(await variable("CALLBOARD_TEST")).toBe("seen")
  expect(await variable("CALLBOARD_HTTP_LINK_SECRET")).toBeNull()
  const loadedIn = Number(await variable("LOADED_IN"))
  if (runtime === "deno") expect(loadedIn).toBe(0)
  else expect([0, service.pid]).not.toContain(loadedIn)
})

test.each(["", " ", "0", "1e1", "-1"])("the variable %j makes no program a process of handlers", (given) => {
  process.env["CALLBOARD_HANDLERS_OF"] = given
  // The first process of a container has the parent 0.
  expect(takeWorker(Number(given))).toBeUndefined()
  expect(process.env["CALLBOARD_HANDLERS_OF"]).toBeUndefined()
})

describe("where an actor comes from", () => {
  test("isolation without a known file is refused at the start, saying what to write", async () => {
    const homeless: ActorDefinition = actor("homeless", { isolation: "process", methods: { run: () => 1 } })
    await expect(
      serve({ transport: `memory://${generateId()}`, actors: [homeless], signals: false }),
    ).rejects.toMatchObject({ _tag: "ActorStartFailed", message: expect.stringContaining("module: import.meta.url") })
  })

  test("what is no isolation, and no file, is refused where the actor is defined", () => {
    const run = () => 1
    expect(() => actor("a", { isolation: "thread" as "process", methods: { run } })).toThrow(/isolation: must be/)
    expect(() => actor("a", { module: "here", methods: { run } })).toThrow(/import\.meta\.url/)
  })

  test("an actor that is found in a folder knows its file", async () => {
    const actors = await discoverActors(fileURLToPath(new URL("isolated-folder", import.meta.url)))
    const { client } = await start({ actors })
    expect(await result(client, "found")).not.toBe(process.pid)
  })

  test("a file that serves when it is loaded starts no service in its processes", async () => {
    const url = `sqlite:${folder()}/board.db`
    const client = await connect(url)
    open.push(() => client.close())
    const service = spawnScript(fileURLToPath(new URL("isolated-service.ts", import.meta.url)), [url])
    open.push(() => service.end())
    const job = await client.submit("itself")
    const outcome = await job.outcome(WAIT)
    expect(outcome).toMatchObject({ state: "succeeded", result: expect.any(Number) })
    expect(outcome).not.toMatchObject({ result: service.pid })
  })
})
