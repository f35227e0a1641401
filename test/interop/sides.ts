/**
 * Tests with real clients, tools and workers of Celery on one side, and Callboard's on the other ("ours"). They are the same for
 * each broker and each result back end.
 */
import { hostname } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { inspect } from "node:util"
import { createClient } from "redis"
import { afterAll, beforeAll, beforeEach, describe, expect, type TestContext, test } from "vitest"
import { type CeleryClient, connectCelery, type LogSink, type Service, serve } from "../../runtime/mod.ts"
import { type CeleryVersion, startCelery } from "../support/servers/celery.ts"
import { keep } from "../support/servers/keep.ts"
import { eventually, type Spawned } from "../support/servers/process.ts"
import { labFor } from "./lab.ts"

/** How long a Python program may take, in milliseconds. It is less than the limit of its test, so that the failure shows its output. */
const PROGRAM_MS = 240_000

export const home = fileURLToPath(new URL(".", import.meta.url))

/** The log lines of all Callboard workers. */
const logged: Array<string> = []
const logLine = (message: string, fields: object): void => void logged.push(`${message} ${inspect(fields)}`)
const log: LogSink = { debug: logLine, info: logLine, warn: logLine, error: logLine }
/** The Callboard workers that were started. */
const services: Array<Service> = []
/** The Python programs that run. */
const programs = new Set<Spawned>()

/** When the test fails, prints the state of both sides: a test that fails at its time limit does not say why it waited. */
const printOnFailure = ({ onTestFailed }: TestContext): void =>
  onTestFailed(() => {
    console.error(`The log of Callboard's workers ends with:\n${logged.slice(-40).join("\n")}`)
    for (const { worker } of services) console.error(`A worker of Callboard has: ${inspect(worker?.inspect())}`)
    for (const { output } of programs)
      console.error(`A program runs, with this output so far:\n${output.slice(-4_000)}`)
  })

/** The servers that both sides share. */
export interface Place {
  /** URL of the broker for Celery. */
  readonly broker: string
  /** URL of the same broker for Callboard. */
  readonly transport: string
  /** URL of the result back end, as Celery writes it. */
  readonly backend: string
  /** URL of the Redis in which `lab.mark` counts its runs. */
  readonly notes: string
}

/** Starts workers and programs of both sides on the same servers. */
export class Sides {
  readonly #place: () => Place

  /** `place` is called at each start, so the servers may be started after this object is made. */
  constructor(place: () => Place) {
    this.#place = place
  }

  get place(): Place {
    return this.#place()
  }

  get env(): Readonly<Record<string, string>> {
    const { broker, backend, notes } = this.place
    return { CELERY_BROKER: broker, CELERY_BACKEND: backend, LAB_NOTES: notes }
  }

  /** Starts a Callboard worker that serves the tasks of `lab.ts`. Resolves once it is ready. */
  async startOurs(name: string, queues: ReadonlyArray<string>): Promise<Service> {
    const { transport, backend, notes } = this.place
    const service = await serve({
      transport,
      resultBackend: backend,
      actors: [labFor(notes)],
      queues,
      name,
      concurrency: 16,
      events: true,
      signals: false,
      log,
    })
    services.push(service)
    await service.ready()
    return service
  }

  async #start(version: CeleryVersion, args: ReadonlyArray<string>): Promise<Spawned> {
    const program = await startCelery(version, home, args, this.env)
    programs.add(program)
    void program.exited.then(() => programs.delete(program))
    return program
  }

  /** Starts a Celery worker that serves the tasks of `tasks.py`. Resolves once it is ready. */
  async startTheirs(version: CeleryVersion, name: string, queues: ReadonlyArray<string>): Promise<Spawned> {
    const what = ["-m", "celery", "-A", "tasks", "worker", "-Q", queues.join(","), "-c", "2", "-n", name, "-l", "INFO"]
    const worker = await this.#start(version, what)
    await worker.waitForLine(/ ready\.$/, 120_000)
    return worker
  }

  /**
   * Runs a Python program to its end. Resolves with its standard output; rejects with all output if its exit code is not 0. After
   * `PROGRAM_MS` the program is ended by SIGABRT, and prints the stacks of its threads before.
   */
  async python(version: CeleryVersion, args: ReadonlyArray<string>): Promise<string> {
    const run = await this.#start(version, ["-X", "faulthandler", ...args])
    const late = setTimeout(() => run.kill("SIGABRT"), PROGRAM_MS)
    try {
      run.endInput()
      const { code, signal } = await run.closed
      if (code !== 0) throw new Error(`${args.join(" ")} ended with ${code ?? signal}:\n${run.output}`)
      return run.stdout
    } finally {
      clearTimeout(late)
      await run.end()
    }
  }

  /** Runs the command `celery` of version 5.6. Resolves with its standard output. */
  celery(...args: ReadonlyArray<string>): Promise<string> {
    return this.python("5.6", ["-m", "celery", "-A", "tasks", ...args])
  }

  /** Runs `client.py` with the client library of a version of Celery. Resolves with its standard output. */
  client(version: CeleryVersion, ...args: ReadonlyArray<string>): Promise<string> {
    return this.python(version, [join(home, "client.py"), ...args])
  }
}

/**
 * Registers the tests of a Callboard worker, with Celery clients of each version and protocol. `tools`: whether to test it with
 * Celery's command line as well; defaults to true.
 */
export const ourWorker = (
  sides: Sides,
  clients: ReadonlyArray<readonly [CeleryVersion, 1 | 2]>,
  { tools = true }: { readonly tools?: boolean } = {},
) =>
  describe("a worker of Callboard", () => {
    let ours: Service
    beforeEach(printOnFailure)
    const queueOf = (version: string, protocol: number) => `q${version.replace(".", "")}${protocol}`
    const queues = clients.map(([version, protocol]) => queueOf(version, protocol))

    beforeAll(async () => {
      ours = await sides.startOurs("ours", queues)
    })

    afterAll(() => ours?.stop({ now: true }))

    if (tools) {
      test("is known to the tools of Celery", async () => {
        const node = `ours@${hostname()}`
        expect(await sides.celery("status")).toContain(`${node}: OK`)
        const inspected = async (...what: ReadonlyArray<string>): Promise<unknown> => {
          const said: unknown = JSON.parse(await sides.celery("inspect", ...what, "--json"))
          return typeof said === "object" && said !== null ? Reflect.get(said, node) : undefined
        }
        expect(await inspected("ping")).toEqual({ ok: "pong" })
        expect(await inspected("registered")).toContain("lab.add")
        expect(await inspected("active_queues")).toMatchObject(queues.map((name) => ({ name })))
        expect(await inspected("stats")).toMatchObject({ pid: process.pid, pool: { "max-concurrency": 16 } })
        for (const what of ["active", "reserved", "scheduled"]) expect(await inspected(what)).toEqual([])
        expect(await sides.celery("control", "pool_grow", "2")).toContain("pool will grow")
        expect(ours.worker?.load.concurrency).toBe(18)
        expect(await sides.celery("control", "rate_limit", "lab.noop", "10/m")).toContain(
          "new rate limit set successfully",
        )
        expect(await sides.celery("control", "add_consumer", "more")).toContain("add consumer more")
        expect(ours.worker?.queues).toContain("more")
        const fanout = await sides.celery("control", "add_consumer", "news", "news", "fanout").catch(String)
        expect(fanout).toContain('exchange_type "fanout" is not supported')
        expect(ours.worker?.queues).not.toContain("news")
        expect(await sides.celery("control", "cancel_consumer", "more")).toContain("no longer consuming from more")
      }, 300_000)
    }

    test.concurrent.each(clients)(
      "answers all checks of a client of Celery %s with protocol %i",
      async (version, protocol) => {
        const said = await sides.client(version, "suite", queueOf(version, protocol), String(protocol))
        expect(said).toContain('{"failed": 0}')
      },
      300_000,
    )
  })

/** Registers the tests of a Celery worker: with a Callboard client, and with a Callboard worker on the same queue. */
export const theirWorker = (sides: Sides) =>
  describe("a worker of Celery", () => {
    let worker: Spawned
    let ours: Service
    let client: CeleryClient

    beforeEach(printOnFailure)

    beforeAll(async () => {
      const { broker, backend } = sides.place
      worker = await sides.startTheirs("5.6", "python@lab", ["python", "both"])
      ours = await sides.startOurs("mixed", ["ours", "both"])
      client = await connectCelery({ broker, resultBackend: backend, queue: "python" })
    }, 300_000)

    afterAll(async () => {
      await client?.close()
      await ours?.stop({ now: true })
      await worker?.end()
    })

    test("runs the tasks of a Callboard client, which reads their results", async () => {
      const add = await client.submit<number>("lab.add", { args: [2, 3] })
      expect(await add.result()).toBe(5)
      expect(await add.meta()).toMatchObject({ status: "SUCCESS", result: 5, task_id: add.id })
      const values = [2n ** 60n + 1n, new Uint8Array([0, 255]), new Date(0), "🦀"]
      const echo = await client.submit<Record<string, unknown>>("lab.echo", { args: values, kwargs: { k: null } })
      const { args } = await echo.result()
      expect(args).toMatchObject([values[0], values[1], expect.any(Date), "🦀"])
      const later = await client.submit("lab.add", { kwargs: { x: 1, y: 1 }, delay: "500ms", priority: 9 })
      expect(await later.meta()).toBeUndefined()
      expect(await later.result()).toBe(2)
      const failing = await client.submit("lab.fail", { args: ["no", 7] })
      await expect(failing.result()).rejects.toMatchObject({
        name: "JobFailed",
        error: { name: "tasks.LabError", message: "no, 7", traceback: expect.stringContaining("raise LabError") },
      })
      const unknown = await client.submit("lab.nothing")
      await expect(unknown.result()).rejects.toMatchObject({ error: { name: "celery.exceptions.NotRegistered" } })
      const limited = await client.submit("lab.sleep", { args: [30], timeLimit: { hard: "1s" } })
      await expect(limited.result()).rejects.toMatchObject({ error: { name: "billiard.exceptions.TimeLimitExceeded" } })
      const expired = await client.submit("lab.add", { args: [1, 1], delay: "1s", expires: "1ms" })
      await expect(expired.result()).rejects.toMatchObject({ name: "JobExpired" })
    }, 60_000)

    test("shows its own states to a Callboard client, which follows tasks that were replaced by others", async () => {
      const stated = await client.submit<string>("lab.stated")
      const ended = stated.result()
      await eventually(async () => (await stated.meta())?.status === "PACKING")
      expect(await stated.meta()).toMatchObject({ result: { boxes: 3 }, date_done: null })
      const notes = await createClient({ url: sides.place.notes }).connect()
      keep({ [Symbol.asyncDispose]: async () => notes.destroy() })
      await notes.set(`told:${stated.id}`, "1")
      expect(await ended).toBe("packed")
      for (const queue of ["python", "ours"]) {
        const replaced = await client.submit<number>("lab.replaced", { args: [1, queue] })
        expect(await replaced.result()).toBe(2)
        const last = await client.chain<number>(
          { task: "lab.add", args: [1, 1], queue: "ours" },
          { task: "lab.replaced", args: [queue], queue: "python" },
          { task: "lab.mul", args: [10], queue: "ours" },
        )
        expect(await last.result()).toBe(30)
      }
    }, 120_000)

    test("answers commands of a Callboard client, which receives its events", async () => {
      const destination = ["python@lab"]
      expect(await client.control("ping", { destination, timeout: "20s" })).toEqual([
        { node: "python@lab", value: { ok: "pong" } },
      ])
      // A command without a destination is answered by the workers of both sides.
      const all = await client.control("ping", { timeout: "3s" })
      expect(all.map(({ node }) => node).toSorted()).toEqual([`mixed@${hostname()}`, "python@lab"].toSorted())
      const seen: Array<string> = []
      const stop = new AbortController()
      await client.listen((event) => seen.push(`${event.type} ${String(event["uuid"])}`), stop.signal)
      const job = await client.submit("lab.add", { args: [1, 2] })
      await eventually(() => seen.includes(`task-succeeded ${job.id}`))
      expect(seen).toContain(`task-received ${job.id}`)
      stop.abort()
      const waiting = await client.submit("lab.add", { args: [1, 1], delay: "1 hour" })
      await eventually(async () => {
        const [scheduled] = await client.control("scheduled", { destination, timeout: "5s" })
        return JSON.stringify(scheduled?.value)?.includes(waiting.id)
      })
      await client.control("revoke", { arguments: { task_id: waiting.id }, destination, timeout: "5s" })
      await expect(waiting.result()).rejects.toMatchObject({ name: "JobCancelled" })
    }, 120_000)

    test("tells a Callboard worker that starts what was revoked, and the time of its clock", async () => {
      const destination = ["python@lab"]
      await client.control("revoke", { arguments: { task_id: ["given-up"] }, destination, timeout: "5s" })
      const clockOf = async (node: string): Promise<unknown> => {
        const [reply] = await client.control("clock", { destination: [node], timeout: "5s" })
        return Object(reply?.value).clock
      }
      const before = Number(await clockOf("python@lab"))
      const late = await sides.startOurs("late", ["late"])
      keep({ [Symbol.asyncDispose]: async () => void (await late.stop({ now: true })) })
      const node = `late@${hostname()}`
      const [known] = await client.control("revoked", { destination: [node], timeout: "5s" })
      expect(known?.value).toContain("given-up")
      expect(await clockOf(node)).toBeGreaterThan(before)
      const job = await client.submit("lab.add", { id: "given-up", args: [1, 1], queue: "late" })
      await expect(job.result()).rejects.toMatchObject({ name: "JobCancelled" })
      // Heartbeats of the other worker set the clock as well.
      const now = Number(await clockOf(node))
      await eventually(async () => Number(await clockOf(node)) > now + 1)
    }, 60_000)

    test("shares a queue with a Callboard worker: every result is right, and no task runs twice", async () => {
      const said = await sides.client("5.6", "mixed", "both", "1000", "python", "ours")
      expect(said).toContain('{"failed": 0}')
      const job = await client.chain<number>(
        { task: "lab.add", args: [2, 3], queue: "python" },
        { task: "lab.mul", args: [4], queue: "ours" },
        { task: "lab.add", args: [1], queue: "python" },
      )
      expect(await job.result()).toBe(21)
    }, 300_000)
  })
