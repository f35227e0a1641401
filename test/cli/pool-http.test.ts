/** What a pool of worker processes answers on its port: whether it is ready, and the numbers of all its processes. */
import { get } from "node:http"
import { createServer } from "node:net"
import { connect } from "callboard"
import { describe, expect, test } from "vitest"
import { startNats } from "../support/servers/nats.ts"
import { eventually, freePort, type Spawned } from "../support/servers/process.ts"
import { Exposition } from "../unit/runtime/metrics/exposition.ts"
import { makeProject, type Project } from "./project.ts"

const works = `
import { actor } from "callboard"
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
export default actor("works", {
  methods: {
    nap: async ({ ms }) => { await sleep(ms); return process.pid },
    fail: async () => { throw new RangeError("out of luck") },
    block: ({ ms }) => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms); return process.pid },
  },
})
`

interface Answer {
  readonly status: number
  readonly text: string
}

class Pool implements AsyncDisposable {
  readonly process: Spawned
  readonly url: string

  constructor(process: Spawned, url: string) {
    this.process = process
    this.url = url
  }

  async get(path: string, token?: string): Promise<Answer> {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const response = await fetch(`${this.url}${path}`, { headers })
    return { status: response.status, text: await response.text() }
  }

  async scrape(token?: string): Promise<Exposition> {
    const { status, text } = await this.get("/metrics", token)
    expect(status).toBe(200)
    return new Exposition(text)
  }

  ready(status = 200): Promise<Answer> {
    return eventually(
      async () => {
        const answer = await this.get("/readyz")
        expect(answer.status, answer.text).toBe(status)
        return answer
      },
      { deadline: 60_000, message: `/readyz is ${status}` },
    )
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.process.end()
  }
}

const startPool = async (project: Project, ...args: readonly string[]): Promise<Pool> => {
  const flags = ["--processes", "2", "-n", "pool", "-c", "1", "--prefetch", "1", "--port", "0"]
  const started = project.start("worker", ...flags, ...args)
  const [, port = ""] = await started.waitForLine(/the pool serves health checks.*http:\/\/[\d.]+:(\d+)/)
  return new Pool(started, `http://127.0.0.1:${port}`)
}

const makeWorks = () => makeProject({ "actors/works.ts": works })

/** Submits so many of a task, and says which processes ran them, once all have ended. */
const run = async (project: Project, count: number, task: string, input: object): Promise<ReadonlySet<unknown>> => {
  await using client = await connect(boardOf(project))
  const receipts = await client.submitMany(Array.from({ length: count }, () => ({ task, input })))
  const outcomes = receipts.map((receipt) => {
    if (receipt instanceof Error) throw receipt
    return client.job(receipt.id).outcome({ timeout: 20 })
  })
  return new Set((await Promise.all(outcomes)).map((outcome) => outcome.state === "succeeded" && outcome.result))
}

const boardOf = ({ path }: Project): string => `sqlite:${path}/.callboard/board.db`

const jobsOf = (now: Exposition) => now.of("callboard_jobs_total")

test("the numbers of all processes are added up, and do not fall when one is killed; it is red until that is back", {
  timeout: 60_000,
}, async () => {
  using project = makeWorks()
  await using pool = await startPool(project)
  expect(await pool.get("/healthz")).toMatchObject({ status: 200 })
  await pool.ready()
  const pids = await run(project, 6, "works.nap", { ms: 400 })
  expect(pids.size).toBe(2)
  await run(project, 1, "works.fail", {})
  const before = await eventually(async () => {
    const now = await pool.scrape()
    expect(jobsOf(now)).toEqual({ "works.nap succeeded": 6, "works.fail failed": 1 })
    return now
  })
  expect(before.of("callboard_job_run_seconds_count")).toEqual({ "works.nap": 6, "works.fail": 1 })
  expect(before.value("callboard_worker_concurrency")).toBe(2)
  expect(before.value("callboard_pool_processes")).toBe(2)
  expect(before.value("callboard_pool_ready")).toBe(2)
  expect(before.value("callboard_pool_restarts_total")).toBe(0)
  expect(before.value("callboard_transport_connected")).toBe(1)
  // Of the board, and not once per process.
  await project.json("submit", "works.nap", '{"ms":1}', "--delay", "1h")
  const settled = await eventually(async () => {
    const now = await pool.scrape()
    expect(now.of("callboard_queue_scheduled")).toEqual({ default: 1 })
    return now
  })

  process.kill(Number([...pids][0]), "SIGKILL")
  expect((await pool.ready(503)).text).toContain("1 of the 2 processes of this pool are consuming")
  const without = await pool.scrape()
  expect(jobsOf(without)).toEqual(jobsOf(settled))
  expect(without.of("callboard_job_run_seconds_bucket")).toEqual(settled.of("callboard_job_run_seconds_bucket"))
  expect(without.of("callboard_job_run_seconds_sum")).toEqual(settled.of("callboard_job_run_seconds_sum"))
  expect(without.value("callboard_worker_concurrency")).toBe(1)
  expect(without.value("callboard_pool_processes")).toBe(1)
  expect(without.value("callboard_pool_restarts_total")).toBe(1)

  await pool.ready()
  await run(project, 4, "works.nap", { ms: 300 })
  await eventually(async () =>
    expect(jobsOf(await pool.scrape())).toEqual({ "works.nap succeeded": 10, "works.fail failed": 1 }),
  )
  expect((await pool.scrape()).value("callboard_worker_concurrency")).toBe(2)

  pool.process.kill("SIGTERM")
  expect(await pool.process.exited).toEqual({ code: 0, signal: null })
})

test("a process that has ended by itself told what it did, and leaves no gap in readiness", async () => {
  using project = makeWorks()
  await using pool = await startPool(project, "--max-jobs", "2")
  await pool.ready()
  // One of them has had two and ended; the other had one, and waits.
  await run(project, 3, "works.nap", { ms: 300 })
  await eventually(async () => expect((await pool.scrape()).value("callboard_pool_processes")).toBe(1))
  await eventually(async () => expect(jobsOf(await pool.scrape())).toEqual({ "works.nap succeeded": 3 }))
  await pool.ready()
})

test("a process that is blocked is not ready, and keeps its numbers", async () => {
  using project = makeWorks()
  await using pool = await startPool(project)
  await pool.ready()
  await run(project, 2, "works.nap", { ms: 300 })
  await eventually(async () => expect(jobsOf(await pool.scrape())).toEqual({ "works.nap succeeded": 2 }))
  const blocking = run(project, 1, "works.block", { ms: 5_000 })
  expect((await pool.ready(503)).text).toContain("1 of the 2 processes")
  const blocked = await pool.scrape()
  expect(blocked.value("callboard_pool_processes")).toBe(2)
  expect(blocked.value("callboard_pool_ready")).toBe(1)
  expect(jobsOf(blocked)).toEqual({ "works.nap succeeded": 2 })
  expect(blocked.value("callboard_worker_concurrency")).toBe(2)
  await blocking
  await pool.ready()
})

test("it is red while the transport is away, and alive", async () => {
  const server = await startNats()
  try {
    using project = makeWorks()
    project.env["CALLBOARD_TRANSPORT"] = server.url
    await using pool = await startPool(project)
    await pool.ready()
    await server.stop()
    // One of them may hear of it a moment before the other.
    await eventually(async () => expect((await pool.ready(503)).text).toContain("0 of the 2 processes"))
    expect(await pool.get("/healthz")).toMatchObject({ status: 200 })
    const away = await pool.scrape()
    expect(away.value("callboard_transport_connected")).toBe(0)
    expect(away.value("callboard_pool_processes")).toBe(2)
  } finally {
    await server.stop()
  }
})

describe("the rest is as everywhere", () => {
  test("other routes are not there, and the answer says who has them", async () => {
    using project = makeWorks()
    await using pool = await startPool(project)
    const { status, text } = await pool.get("/v1/jobs")
    expect(status).toBe(404)
    expect(JSON.parse(text)).toMatchObject({ code: "not-found", detail: expect.stringContaining("callboard serve") })
    expect((await fetch(`${pool.url}/metrics`, { method: "POST" })).headers.get("allow")).toBe("GET, HEAD")
    const external = await new Promise((resolve) =>
      get(`${pool.url}/healthz`, { headers: { host: "evil.example" } }, (answer) => resolve(answer.statusCode)),
    )
    expect(external).toBe(403)
  })

  test("metrics that are off are 404", async () => {
    using project = makeWorks()
    project.env["CALLBOARD_METRICS"] = "false"
    await using pool = await startPool(project)
    await pool.ready()
    expect(await pool.get("/metrics")).toMatchObject({ status: 404, text: expect.stringContaining("not-found") })
  })

  test("another address needs a token, and metrics its scope", async () => {
    using project = makeWorks()
    const refused = await project.run("worker", "--processes", "2", "--port", "0", "--host", "0.0.0.0")
    expect(refused).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("no token is set") })
    project.env["CALLBOARD_HTTP_TOKENS"] = "read:reader-of-numbers,submit:sender-of-tasks-"
    await using pool = await startPool(project, "--host", "0.0.0.0")
    await pool.ready()
    expect((await pool.get("/metrics")).status).toBe(401)
    expect((await pool.get("/metrics", "sender-of-tasks-")).status).toBe(403)
    expect((await pool.scrape("reader-of-numbers")).value("callboard_pool_processes")).toBe(2)
  })

  test("a port that is taken ends it before any worker starts", async () => {
    using project = makeWorks()
    const port = await freePort()
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(port, "127.0.0.1", resolve))
    try {
      const { code, stdout, stderr } = await project.run("worker", "--processes", "2", "--port", `${port}`)
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" })
      expect(stderr).toContain(`127.0.0.1:${port} is in use`)
    } finally {
      other.close()
    }
  })
})

test("a single process answers for itself, everything", async () => {
  using project = makeWorks()
  await using worker = project.start("worker", "--port", "0")
  const [, url = ""] = await worker.waitForLine(/message=ready.*(http:\/\/127\.0\.0\.1:\d+)/)
  const text = await (await fetch(`${url}/metrics`)).text()
  expect(new Exposition(text).value("callboard_worker_concurrency")).toBeGreaterThan(0)
  expect(text).not.toContain("callboard_pool")
  expect((await fetch(`${url}/v1/workers`)).status).toBe(200)
})
