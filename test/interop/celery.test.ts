/** Real clients, tools and workers of Celery beside Callboard's, on one Redis. */
import { hostname } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { type CeleryClient, connectCelery, type Service, serve } from "../../runtime/mod.ts"
import { makeExamples } from "../cli/examples.ts"
import { type CeleryVersion, celeryProgram, startCelery } from "../support/servers/celery.ts"
import { eventually, type Spawned, spawnProcess, spawnScript } from "../support/servers/process.ts"
import { type RedisServer, startRedis } from "../support/servers/redis.ts"
import { celeryBlocks, exampleFiles, readPage } from "../support/tools/pages.ts"
import { labFor } from "./lab.ts"

const home = fileURLToPath(new URL(".", import.meta.url))

let redis: RedisServer
let broker: string
let backend: string

beforeAll(async () => {
  redis = await startRedis(["--save", "", "--appendonly", "no"])
  broker = `redis://127.0.0.1:${redis.port}/0`
  backend = `redis://127.0.0.1:${redis.port}/1`
}, 300_000)

afterAll(() => redis?.stop())

const startOurs = async (name: string, queues: ReadonlyArray<string>): Promise<Service> => {
  const service = await serve({
    transport: broker,
    resultBackend: backend,
    actors: [labFor(backend)],
    queues,
    name,
    concurrency: 16,
    events: true,
    signals: false,
    logLevel: "error",
  })
  await service.ready()
  return service
}

/** Runs a Python program to its end. Resolves with what it prints; rejects unless it succeeds. */
const python = async (version: CeleryVersion, args: ReadonlyArray<string>, withoutInput = true): Promise<string> => {
  const run = await startCelery(version, home, args, { CELERY_BROKER: broker, CELERY_BACKEND: backend })
  try {
    if (withoutInput) run.endInput()
    const { code } = await run.closed
    if (code !== 0) throw new Error(`${args.join(" ")} ended with ${code}:\n${run.output}`)
    return run.stdout
  } finally {
    await run.end()
  }
}

const celery = (...args: ReadonlyArray<string>): Promise<string> =>
  python("5.6", ["-m", "celery", "-A", "tasks", ...args])

const client = (version: CeleryVersion, ...args: ReadonlyArray<string>): Promise<string> =>
  python(version, [join(home, "client.py"), ...args])

describe("a worker of Callboard", () => {
  let ours: Service
  const queues = ["q562", "q561", "q552", "q551"]

  beforeAll(async () => {
    ours = await startOurs("ours", queues)
  })

  afterAll(() => ours?.stop({ now: true }))

  test("is known to the tools of Celery", async () => {
    const node = `ours@${hostname()}`
    expect(await celery("status")).toContain(`${node}: OK`)
    const inspected = async (...what: ReadonlyArray<string>): Promise<unknown> => {
      const said: unknown = JSON.parse(await celery("inspect", ...what, "--json"))
      return typeof said === "object" && said !== null ? Reflect.get(said, node) : undefined
    }
    expect(await inspected("ping")).toEqual({ ok: "pong" })
    expect(await inspected("registered")).toContain("lab.add")
    expect(await inspected("active_queues")).toMatchObject(queues.map((name) => ({ name })))
    expect(await inspected("stats")).toMatchObject({ pid: process.pid, pool: { "max-concurrency": 16 } })
    for (const what of ["active", "reserved", "scheduled"]) expect(await inspected(what)).toEqual([])
    expect(await celery("control", "pool_grow", "2")).toContain("pool will grow")
    expect(ours.worker?.load.concurrency).toBe(18)
    expect(await celery("control", "rate_limit", "lab.noop", "10/m")).toContain("new rate limit set successfully")
    expect(await celery("control", "add_consumer", "more")).toContain("add consumer more")
    expect(ours.worker?.queues).toContain("more")
    expect(await celery("control", "cancel_consumer", "more")).toContain("no longer consuming from more")
  }, 120_000)

  test.concurrent.each([
    ["5.6", 2],
    ["5.6", 1],
    ["5.5", 2],
    ["5.5", 1],
  ] as const)(
    "brings clients of Celery %s with protocol %i everything they wait for",
    async (version, protocol) => {
      const queue = `q${version.replace(".", "")}${protocol}`
      const said = await client(version, "suite", broker, backend, queue, String(protocol))
      expect(said).toContain('{"failed": 0}')
    },
    300_000,
  )
})

describe("the page about Celery", () => {
  const examples = exampleFiles()
  const here = (text: string | undefined): string =>
    (text ?? "").replaceAll("localhost:6379", `127.0.0.1:${redis.port}`)
  const [application = "", route = ""] = readPage("docs/from-celery.md")
    .blocks.filter(({ language }) => language === "text")
    .map(({ text }) => text)

  test("moves one task, command by command", async () => {
    using project = makeExamples({
      "actors/proj-tasks.ts": examples.get("actors/proj-tasks.ts") ?? "",
      "proj/__init__.py": "",
      "proj/tasks.py": here(application),
    })
    const { program, env } = await celeryProgram("5.6", project.path)
    const set = Object.entries(env).map(([name, value]) => `${name}='${value}'`)
    const launcher = join(home, "../../runtime/cli/launcher.js")
    const commands = [
      `npx() { shift; '${process.execPath}' run '${launcher}' "$@"; }`,
      `python3() { ${set.join(" ")} '${program}' "$@"; }`,
      `celery() { python3 -m celery "$@"; }`,
    ].join("\n")
    const shell = (block: string) =>
      spawnProcess("sh", ["-c", `set -e\n${commands}\n${here(block)}`], { cwd: project.path })
    await using worker = shell(celeryBlocks.start)
    await worker.waitForLine(/listens|ready|queues/i)
    const ended = async (block: string): Promise<string> => {
      await using run = shell(block)
      const { code, output } = { ...(await run.closed), output: run.output }
      expect({ code, output }).toMatchObject({ code: 0 })
      return output
    }
    const looked = await ended(celeryBlocks.look)
    expect(looked).toContain("* proj.tasks.add")
    expect(looked).toMatch(/^5$/m)
    expect(looked).toContain("succeeded")
    project.write("proj/tasks.py", here(`${application}\n${route}`))
    expect(await ended(celeryBlocks.move)).toBe("5\n")
  }, 180_000)

  test("has examples that run", async () => {
    using project = makeExamples({
      "actors/math.ts": examples.get("actors/math.ts") ?? "",
      "among-celery.ts": here(examples.get("among-celery.ts")),
      "call-python.ts": here(examples.get("call-python.ts")),
    })
    await using service = spawnScript(join(project.path, "among-celery.ts"), [], { cwd: project.path })
    await service.waitForLine(/ready/)
    const added = "from tasks import app; print(app.send_task('math.tasks.add', [2, 3]).get(timeout=20))"
    expect(await python("5.6", ["-c", added])).toBe("5\n")
    // No Celery worker runs here, and the Callboard worker serves math.add alone.
    await using client = spawnScript(join(project.path, "call-python.ts"), [], { cwd: project.path })
    await client.closed
    expect(client.output).toContain("NotRegistered")
  }, 120_000)
})

describe("a worker of Celery", () => {
  let worker: Spawned
  let ours: Service
  let client: CeleryClient

  beforeAll(async () => {
    const env = { CELERY_BROKER: broker, CELERY_BACKEND: backend }
    const args = [
      "-m",
      "celery",
      "-A",
      "tasks",
      "worker",
      "-Q",
      "python,both",
      "-c",
      "2",
      "-n",
      "python@lab",
      "-l",
      "INFO",
    ]
    worker = await startCelery("5.6", home, args, env)
    ours = await startOurs("mixed", ["ours", "both"])
    client = await connectCelery({ broker, resultBackend: backend, queue: "python" })
    await worker.waitForLine(/python@lab ready/, 120_000)
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

  test("answers commands of a Callboard client, which receives its events", async () => {
    const destination = ["python@lab"]
    expect(await client.control("ping", { destination, timeout: "20s" })).toEqual([
      { node: "python@lab", value: { ok: "pong" } },
    ])
    // Workers of both kinds reply to a command without a destination.
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

  test("and one of Callboard share a queue: every result is right, and no task ran twice", async () => {
    const said = await python("5.6", [
      join(home, "client.py"),
      "mixed",
      broker,
      backend,
      "both",
      "1000",
      "python",
      "ours",
    ])
    expect(said).toContain('{"failed": 0}')
    const job = await client.chain<number>(
      { task: "lab.add", args: [2, 3], queue: "python" },
      { task: "lab.mul", args: [4], queue: "ours" },
      { task: "lab.add", args: [1], queue: "python" },
    )
    expect(await job.result()).toBe(21)
  }, 300_000)
})
