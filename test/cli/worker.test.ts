/** How a worker ends: by the first, second or third signal, or by itself; and what happens to its jobs. */
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { type NatsServer, startNats } from "../support/servers/nats.ts"
import { eventually, isRunning, type Spawned } from "../support/servers/process.ts"
import { makeProject as makePlainProject, makeProject, type Project, works } from "./project.ts"

interface Job {
  readonly state: string
  readonly attempts: number
  readonly result?: { readonly pid: number; readonly attempt: number }
  readonly transitions: ReadonlyArray<{ readonly state: string; readonly reason?: string }>
}

const find = (project: Project, id: string) => project.json<Job>("job", id)

const startWorker = async (project: Project, ...args: readonly string[]): Promise<Spawned> => {
  const worker = project.start("worker", "-c", "1", ...args)
  await worker.waitForLine(/message=ready/)
  return worker
}

/** A configuration with the transport of memory, in which one method of `jobs` is replaced. */
const over = (change: string, settings = ""): string => `
import { TransportError } from "callboard"
import { memory } from "${new URL("../support/memory.ts", import.meta.url).pathname}"
const changed = {
  schemes: ["changed"],
  connect: async (url, options) => {
    const transport = await memory.connect(url, options)
    return { ...transport, jobs: { ...transport.jobs, ${change} } }
  },
}
export default { transport: "changed:", transports: { changed }, ${settings} }`

/** Waits until the next signal counts as another one: signals within a second count as one. */
const distinct = () => new Promise((resolve) => setTimeout(resolve, 1_100))

test.concurrent("on a terminal it says what runs and where, and each job in a line", { timeout: 60_000 }, async () => {
  const talks = `
import { actor } from "callboard"
export default actor("talks", { methods: { hello: async (_, job) => { job.log.info("hello there", { to: "Ada" }) } } })`
  using project = makeProject({ "actors/works.ts": works, "actors/talks.ts": talks })
  await using worker = project.onTerminal("worker", "-c", "2", "-n", "w1")
  await worker.waitForLine(/^callboard \d+\.\d+\.\d+ on (Bun|Deno|Node) \d/)
  await worker.waitForLine(/^ {2}worker {5}w1, 2 at a time$/)
  await worker.waitForLine(/^ {2}transport {2}sqlite:\.callboard\/board\.db \(durable: fsync\)$/)
  await worker.waitForLine(/^ {13}works: echo, headers, fail, nap, stubborn$/)
  await project.json("submit", "works.echo", "--id", "good")
  await project.json("submit", "works.fail", "--id", "bad")
  await project.json("submit", "talks", "--method", "hello", "--id", "said")
  await worker.waitForLine(/^\d\d:\d\d:\d\d {2}succeeded {2}works\.echo {2}good {2}\d/)
  await worker.waitForLine(/^\d\d:\d\d:\d\d {2}failed {5}works\.fail {2}bad {2}.*RangeError: out of luck$/)
  await worker.waitForLine(/^\d\d:\d\d:\d\d {2}info {2}hello there {2}talks\.hello {2}said {2}to=Ada$/)
  await worker.waitForLine(/^\d\d:\d\d:\d\d {2}succeeded {2}talks\.hello {2}said {2}\d/)
  worker.write("\u0003")
  await worker.waitForLine(/^(\^C)?\d\d:\d\d:\d\d {2}info {2}stopped: 0 finished, 0 handed back$/)
  expect((await worker.closed).code).toBe(0)
  expect(worker.output).not.toMatch(/fiber|#\d|logger|message=/)
  expect(worker.output.match(/out of luck/g)).toHaveLength(1)
})

describe.concurrent("signals", () => {
  test.sequential("the first lets handlers finish and hands back what waits; exit code 0", async () => {
    using project = makeProject()
    await using worker = await startWorker(project)
    // The worker gets both tasks with one pull, so it holds both when the first one prints its line. The signal follows at once:
    // a worker keeps no task behind a job that runs for more than a second.
    await project.json("pause", "default")
    await project.json("submit", "works.nap", '{"ms":3000}', "--id", "running")
    await project.json("submit", "works.nap", '{"ms":1}', "--id", "waiting")
    await project.json("resume", "default")
    await worker.waitForLine(/^napping/)
    // Two signals at once count as one: `bun run` delivers Ctrl+C twice.
    worker.kill("SIGINT")
    worker.kill("SIGINT")
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    expect(worker.output).toMatch(/Restoring 1 unacknowledged message\(s\)/)
    expect(worker.output).toMatch(/stopped: 1 finished, 1 handed back/)
    expect(await find(project, "running")).toMatchObject({ state: "succeeded", attempts: 1 })
    expect(await find(project, "waiting")).toMatchObject({ state: "queued", attempts: 0 })
  })

  test.sequential("a terminal that is closed stops it softly", async () => {
    using project = makeProject()
    await using worker = project.onTerminal("worker", "-c", "1")
    await worker.waitForLine(/actors.*works/)
    await project.json("submit", "works.nap", '{"ms":2500}', "--id", "running")
    const [, pid] = await worker.waitForLine(/^napping (\d+)/)
    worker.kill("SIGKILL")
    await eventually(async () => (await find(project, "running")).state === "succeeded", { message: "it has ended" })
    expect(await find(project, "running")).toMatchObject({ attempts: 1 })
    await eventually(() => !isRunning(Number(pid)), { message: "the process that works lives on" })
  })

  test.sequential("with --json the stop is a line of numbers", async () => {
    using project = makeProject()
    await using worker = project.start("worker", "-c", "1", "--grace", "100ms", "--json")
    await worker.waitForLine(/"message":"ready"/)
    await project.json("submit", "works.nap", '{"ms":60000}', "--id", "long")
    await worker.waitForLine(/^napping/)
    worker.kill("SIGTERM")
    expect(await worker.closed).toEqual({ code: 0, signal: null })
    const line = worker.stdout.split("\n").findLast((text) => text.includes("stopped:")) ?? ""
    expect(JSON.parse(line)).toMatchObject({
      level: "INFO",
      annotations: { finished: 0, handedBack: 1, stuck: 1, lost: 0 },
    })
  })

  test.sequential.each([1, 2])(
    "the second hands back now, and no attempt is counted as a retry: %i process(es)",
    async (processes) => {
      using project = makeProject()
      await using worker = await startWorker(project, "--processes", `${processes}`)
      await project.json("submit", "works.nap", '{"ms":60000}', "--id", "long")
      await worker.waitForLine(/^napping/)
      worker.kill("SIGTERM")
      await worker.waitForLine(/send the signal again to hand them back now/)
      await distinct()
      worker.kill("SIGTERM")
      expect(await worker.exited).toEqual({ code: 0, signal: null })
      const job = await find(project, "long")
      expect(job.state).toBe("queued")
      expect(job.transitions.at(-1)).toMatchObject({ reason: "handed-back" })
    },
  )

  test.sequential("the third ends it at once, with exit code 1 and everything that it started", async () => {
    // On this transport a hand-back is never answered.
    using project = makeProject({
      "actors/works.ts": works,
      "callboard.config.ts": over("settle: () => new Promise(() => {})"),
    })
    await using worker = project.start("worker", "--port", "0")
    const [, url] = await worker.waitForLine(/(http:\/\/127\.0\.0\.1:\d+)/)
    await fetch(`${url}/v1/jobs`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ task: "works.nap", input: { ms: 60_000 } }),
    })
    const [, pid] = await worker.waitForLine(/^napping (\d+)/)
    worker.kill("SIGTERM")
    await distinct()
    worker.kill("SIGTERM")
    await worker.waitForLine(/handing running jobs back now/)
    await distinct()
    worker.kill("SIGTERM")
    expect(await worker.exited).toEqual({ code: 1, signal: null })
    await eventually(() => !isRunning(Number(pid)), { message: "the process that works lives on" })
  })

  test.sequential("a hand-back by the grace period", async () => {
    using project = makeProject()
    await using worker = await startWorker(project, "--grace", "200ms")
    await project.json("submit", "works.nap", '{"ms":60000}', "--id", "long")
    await worker.waitForLine(/^napping/)
    worker.kill("SIGTERM")
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    expect(await find(project, "long")).toMatchObject({ state: "queued" })
  })
})

test.concurrent("a worker that was killed starts again, and its job runs to the end", async () => {
  using project = makeProject()
  await using worker = await startWorker(project, "--lease", "4s")
  await project.json("submit", "works.nap", '{"ms":3000}', "--id", "job")
  const [, pid = ""] = await worker.waitForLine(/^napping (\d+) 1/)
  // The attempt counts once the record says `started`. An attempt that dies within its first moment leaves no trace.
  await eventually(async () => (await find(project, "job")).state === "started")
  process.kill(Number(pid), "SIGKILL")
  await worker.waitForLine(/the worker was ended by SIGKILL; restarting it in 1 s/)
  await worker.waitForLine(/^napping \d+ 2/)
  const job = await eventually(async () => {
    const found = await find(project, "job")
    return found.state === "succeeded" ? found : undefined
  })
  expect(job.result?.attempt).toBe(2)
  expect(job.result?.pid).not.toBe(Number(pid))
  worker.kill("SIGTERM")
  expect(await worker.exited).toEqual({ code: 0, signal: null })
})

test.concurrent.each([
  { processes: 1, code: 3 },
  { processes: 2, code: 1 },
])(
  "a handler that ends its process with exit code $code costs none of $processes worker(s)",
  async ({ processes, code }) => {
    using project = makeProject({
      "actors/works.ts": works,
      "actors/ends.ts": `
      import { actor } from "callboard"
      export default actor("ends", { methods: { run: ({ code }) => process.exit(code) } })`,
    })
    await using worker = await startWorker(
      project,
      ...["--processes", `${processes}`, "-Q", "default", "-n", "w", "--lease", "1s", "--lost-cap", "1"],
    )
    await project.json("submit", "ends", JSON.stringify({ code }), "--id", "ends")
    const who = processes === 1 ? "the worker" : "worker [12]"
    await worker.waitForLine(
      new RegExp(`${who} ended unexpectedly with exit code ${code}; restarting it in 1 s`),
      15_000,
    )
    await eventually(async () => (await find(project, "ends")).state === "failed", {
      deadline: 60_000,
      message: "it is given up",
    })
    await eventually(
      async () => (await project.json<{ workers: ReadonlyArray<unknown> }>("workers")).workers.length === processes,
      { deadline: 60_000, message: "all workers are there again" },
    )
    await project.json("submit", "works.echo", "--id", "echo")
    await eventually(async () => (await find(project, "echo")).state === "succeeded", { message: "they work" })
    worker.kill("SIGTERM")
    expect(await worker.exited).toEqual({ code: 0, signal: null })
  },
  60_000,
)

test.concurrent.each([1, 2])(
  "of %d worker(s), one whose slots are all held by stuck handlers is started again",
  async (processes) => {
    using project = makeProject({
      "actors/works.ts": works,
      "actors/traps.ts": `
      import { actor } from "callboard"
      const never = () => new Promise(() => setInterval(() => {}, 1_000))
      export default actor("traps", { methods: { run: { timeLimit: { hard: 0.2 }, run: never } } })`,
    })
    const args = ["--processes", `${processes}`, "-Q", "default", "-n", "w", "--stuck-grace", "2s", "--port", "0"]
    await using worker = await startWorker(project, ...args)
    const [, url = ""] = await worker.waitForLine(/url=(http:\S+)/)
    for (let at = 0; at < processes; at++) await project.json("submit", "traps")
    await eventually(
      async () => {
        const answer = await fetch(`${url}/readyz`)
        return answer.status === 503 && (await answer.text()).includes("stuck")
      },
      { deadline: 30_000, message: "/readyz says that it is stuck" },
    )
    const who = processes === 1 ? "the worker" : "worker [12]"
    await worker.waitForLine(new RegExp(`${who} ended unexpectedly with exit code 5; restarting it in 1 s`), 30_000)
    await project.json("submit", "works.echo", "--id", "echo")
    await eventually(async () => (await find(project, "echo")).state === "succeeded", {
      deadline: 60_000,
      message: "the new process works",
    })
    worker.kill("SIGTERM")
    expect(await worker.exited).toEqual({ code: 0, signal: null })
  },
  90_000,
)

describe.concurrent("what cannot start", () => {
  test.sequential("an actors' folder that fails to load: one line, exit code 1, no second try", async () => {
    using project = makeProject({ "actors/works.ts": `console.log("loading"); throw new Error("no licence")` })
    const { code, stdout, stderr } = await project.run("worker")
    expect([code, stdout.match(/loading/g)?.length]).toEqual([1, 1])
    expect(stderr).toMatch(/^callboard: .*no licence/)
    expect(stderr.trim().split("\n")).toHaveLength(1)
  })

  test.sequential("actors none of whose processes comes up: one line, exit code 1", async () => {
    using project = makeProject({
      "actors/works.ts": `
        import { actor } from "callboard"
        export default actor("works", {
          isolation: "process",
          start: () => { throw new Error("no licence") },
          methods: { run: () => 1 },
        })`,
    })
    const { code, stderr } = await project.run("worker")
    expect(code).toBe(1)
    expect(stderr).toMatch(/^callboard: no process of isolated handlers can be started: no licence$/m)
    expect(stderr.trim().split("\n")).toHaveLength(1)
  })

  test.sequential("a pool whose processes are killed before they are ready, again and again, is given up", async () => {
    using project = makeProject({
      "actors/works.ts": `process.kill(process.pid, "SIGKILL"); await new Promise(() => {})`,
    })
    const { code, stderr } = await project.run("worker", "--processes", "2", "-n", "pool")
    expect(code).toBe(1)
    for (const seat of [1, 2]) {
      expect(stderr.match(new RegExp(`worker ${seat} was ended by SIGKILL; restarting it`, "g"))).toHaveLength(4)
      expect(stderr).toContain(`worker ${seat} was ended by SIGKILL 5 times before it was ready; giving up`)
    }
  }, 60_000)
})

describe.concurrent.each(["sqlite", "nats"])("S180 pool on %s", (transport) => {
  let server: NatsServer | undefined
  beforeAll(async () => {
    if (transport === "nats") server = await startNats()
  })
  afterAll(() => server?.stop())
  const makeProject = (): Project => {
    const project = makePlainProject()
    if (server !== undefined) project.env["CALLBOARD_TRANSPORT"] = `${server.url}?ns=${generateId()}`
    return project
  }

  interface Listed {
    readonly workers: ReadonlyArray<{ readonly name: string; readonly pid: number }>
  }
  const listed = async (project: Project) => (await project.json<Listed>("workers")).workers

  test.sequential("of two: one that is killed is there again, and a signal ends all of them", async () => {
    using project = makeProject()
    await using pool = project.start("worker", "-Q", "default", "--processes", "2", "-n", "pool")
    const two = await eventually(
      async () => {
        const workers = await listed(project)
        return workers.length === 2 ? workers : undefined
      },
      { deadline: 60_000, message: "two workers are there" },
    )
    expect(two.map(({ name }) => name)).toEqual(["pool-1", "pool-2"])
    await pool.waitForLine(/message=ready.*worker=pool-1/)
    const [first] = two
    process.kill(first?.pid ?? 0, "SIGKILL")
    await eventually(
      async () => (await listed(project)).some(({ name, pid }) => name === "pool-1" && pid !== first?.pid),
      { deadline: 60_000, message: "the killed one is there again" },
    )
    expect(await listed(project)).toHaveLength(2)
    // A worker that is killed while it writes its entry in the list of workers leaves the entry there until it expires.
    await eventually(() => pool.output.match(/message=ready.*worker=pool-1/g)?.length === 2)
    pool.kill("SIGTERM")
    expect(await pool.exited).toEqual({ code: 0, signal: null })
    expect(await listed(project)).toEqual([])
  })

  test.sequential("that bursts ends when the queues are empty", async () => {
    using project = makeProject()
    for (const id of ["a", "b", "c"]) await project.json("submit", "works.nap", '{"ms":100}', "--id", id)
    await using pool = project.start("worker", "-Q", "default", "--processes", "2", "--burst")
    expect(await pool.exited).toEqual({ code: 0, signal: null })
    for (const id of ["a", "b", "c"]) expect(await find(project, id)).toMatchObject({ state: "succeeded" })
  })

  test.sequential("that bursts ends when what a limit has put off has come back and run", {
    timeout: 60_000,
  }, async () => {
    using project = makeProject()
    project.write(
      "actors/slow.ts",
      `
      import { actor } from "callboard"
      export default actor("slow", { methods: { run: { limit: { rate: "2/s" }, run: () => process.pid } } })`,
    )
    const ids = ["a", "b", "c", "d", "e"]
    await Promise.all(ids.map((id) => project.json("submit", "slow", "--id", id)))
    await using pool = project.start("worker", "-Q", "default", "--processes", "2", "--burst")
    expect(await pool.exited).toEqual({ code: 0, signal: null })
    for (const id of ids) expect(await find(project, id)).toMatchObject({ state: "succeeded" })
  })
})

test.concurrent.each([1, 2])("of %d worker(s), each stops softly when the launcher is gone", async (processes) => {
  using project = makeProject()
  await using worker = await startWorker(project, "--processes", `${processes}`, "-Q", "default")
  await project.json("submit", "works.nap", '{"ms":500}', "--id", "job")
  const [, pid = ""] = await worker.waitForLine(/^napping (\d+)/)
  worker.kill("SIGKILL")
  await worker.exited
  await eventually(() => !isRunning(Number(pid)), { message: "the worker lives on" })
  expect(await find(project, "job")).toMatchObject({ state: "succeeded", attempts: 1 })
})

test.concurrent("a worker that gives up says why and ends with exit code 1", async () => {
  using project = makeProject({
    "actors/works.ts": works,
    "callboard.config.ts": over(
      `take: async () => { throw new TransportError("unavailable", "the line is dead") }`,
      "reconnect: { maxTries: 2 }",
    ),
  })
  const { code, stdout, stderr } = await project.run("worker")
  expect(stderr).toMatch(/^callboard: the worker is stopping: the line is dead/m)
  expect(stdout).toMatch(/Trying again in .* \(2\/2\)/)
  expect(code).toBe(1)
})

test.concurrent("flags, variables and file reach the worker", async () => {
  using project = makeProject()
  project.write("callboard.config.ts", `export default { name: "by-file", queues: ["filed"], concurrency: 3 }`)
  project.env["CALLBOARD_QUEUES"] = "high,low"
  await using worker = project.start("worker", "-n", "by-flag")
  await worker.waitForLine(/message=ready.*worker=by-flag.*queues=high,low/)
  const { workers } = await project.json<{ workers: unknown[] }>("workers")
  expect(workers).toMatchObject([{ name: "by-flag", queues: ["high", "low"], concurrency: 3 }])
})

test.concurrent("--json logs JSON, a line each", async () => {
  using project = makeProject()
  await using worker = project.start("worker", "--json", "--port", "0")
  await worker.waitForLine(/"message":"ready"/)
  worker.kill("SIGTERM")
  await worker.closed
  const lines = worker.stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))
  expect(lines.length).toBeGreaterThan(1)
  expect(JSON.stringify(lines)).toMatch(/http:\/\/127\.0\.0\.1:\d+/)
})

test.concurrent("serve answers HTTP and works on nothing", async () => {
  using project = makeProject()
  await using server = project.start("serve", "--port", "0")
  const [, url = ""] = await server.waitForLine(/message=ready.*(http:\/\/127\.0\.0\.1:\d+)/)
  const posted = await fetch(`${url}/v1/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ task: "works.echo", input: 1 }),
  })
  expect(posted.status).toBe(202)
  expect((await fetch(`${url}/readyz`)).status).toBe(200)
  expect((await project.json<{ workers: unknown[] }>("workers")).workers).toEqual([])
  server.kill("SIGTERM")
  expect(await server.exited).toEqual({ code: 0, signal: null })
})

test.concurrent("another address than loopback without a token is refused", async () => {
  using project = makeProject()
  const { code, stderr } = await project.run("serve", "--host", "0.0.0.0", "--port", "0")
  expect(code).toBe(2)
  expect(stderr).toMatch(/http\.host: 0\.0\.0\.0 is reachable from other machines and no token is set/)
})
