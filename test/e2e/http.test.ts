/** HTTP on real transports: an accepted task outlives its service, and a request is answered in time while the transport is away. */
import { once } from "node:events"
import { connect as dial } from "node:net"
import { afterEach, describe, expect, test } from "vitest"
import { fastest } from "../support/fastest.ts"
import { type NatsServer, startNats } from "../support/servers/nats.ts"
import { eventually, type Spawned, spawnProcess, spawnScript } from "../support/servers/process.ts"
import { sharedBoards } from "./boards.ts"
import { serviceProgram } from "./processes.ts"

const DEADLINE = 60_000

const open: Array<AsyncDisposable> = []
afterEach(async () => {
  for (const resource of open.splice(0).reverse()) await resource[Symbol.asyncDispose]()
})

const keep = <R extends AsyncDisposable>(resource: R): R => {
  open.push(resource)
  return resource
}

const startService = async (url: string): Promise<readonly [service: Spawned, url: string]> => {
  const service = keep(
    spawnScript(serviceProgram(), [url, JSON.stringify({ http: { port: 0 }, reconnect: { maxTries: 0 } })]),
  )
  const [, at = ""] = await service.waitForLine(/^ready (http\S+)/, DEADLINE)
  return [service, at]
}

interface Answered {
  readonly status: number
  readonly retryAfter: string | null
  readonly body: Readonly<Record<string, unknown>>
}

const ask = async (url: string, init: RequestInit = {}): Promise<Answered> => {
  const response = await fetch(url, init)
  const body = (await response.json()) as Answered["body"]
  return { status: response.status, retryAfter: response.headers.get("retry-after"), body }
}

const submit = (url: string, task: object, headers: Readonly<Record<string, string>> = {}): Promise<Answered> =>
  ask(`${url}/v1/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(task),
  })

describe.each(sharedBoards)("on $name", (kind) => {
  test("a task is accepted and runs, and its job can be read and listed", async () => {
    const board = keep(await kind.open())
    const [, url] = await startService(board.url())
    const done = await submit(url, { task: "e2e.step", input: {} }, { prefer: "wait=10" })
    expect(done).toMatchObject({ status: 200, body: { state: "succeeded", result: { attempt: 1 } } })
    const { body } = await ask(`${url}/v1/jobs/${done.body["id"]}`)
    expect(body).toMatchObject({ state: "succeeded", attempts: 1, task: "e2e.step" })
    const list = await ask(`${url}/v1/jobs?state=succeeded`)
    expect(list.body["jobs"]).toMatchObject([{ id: done.body["id"] }])
    expect(await ask(`${url}/v1/jobs?cursor=%00nonsense`)).toMatchObject({ status: 400, body: { field: "cursor" } })
    expect(await ask(`${url}/readyz`)).toMatchObject({ status: 200 })
  })

  test("a task and its Idempotency-Key outlive the service that accepted them", async () => {
    const board = keep(await kind.open())
    const [first, before] = await startService(board.url(1))
    const task = { task: "e2e.step", input: { gate: `${board.folder}/gate` }, delay: 1 }
    const accepted = await submit(before, task, { "idempotency-key": "order-1" })
    expect(accepted.status).toBe(202)
    first.kill("SIGKILL")
    await first.exited
    const [, after] = await startService(board.url(1))
    const again = await submit(after, task, { "idempotency-key": "order-1" })
    expect(again).toMatchObject({ status: 202, body: { id: accepted.body["id"], duplicate: true } })
    const other = await submit(after, { ...task, delay: 2 }, { "idempotency-key": "order-1" })
    expect(other).toMatchObject({ status: 422, body: { code: "idempotency-mismatch" } })
    await eventually(async () => (await ask(`${after}/v1/jobs/${accepted.body["id"]}`)).body["state"] === "started", {
      deadline: DEADLINE,
      message: "the job runs",
    })
    await ask(`${after}/v1/jobs/${accepted.body["id"]}/cancel`, { method: "POST" })
    expect((await ask(`${after}/v1/jobs?limit=10`)).body["jobs"]).toMatchObject([{ state: "cancelled" }])
  })
})

/** Begins `count` requests, each on a connection of its own, and finishes none of them. */
const halfRequests = async (url: string, count: number, more?: string) => {
  const { hostname, port } = new URL(url)
  let open = 0
  const sockets = await Promise.all(
    Array.from({ length: count }, async () => {
      const socket = dial(Number(port), hostname)
      let dripping: ReturnType<typeof setInterval> | undefined
      // A server that may not open more files may refuse the connection at once.
      socket.on("error", () => undefined)
      // On Node a socket closes once all that came before has been read.
      socket.resume()
      socket.on("close", () => {
        clearInterval(dripping)
        open--
      })
      open++
      await Promise.race([once(socket, "connect"), once(socket, "close")]).catch(() => undefined)
      socket.write(`GET /healthz HTTP/1.1\r\nHost: ${hostname}\r\nX-Slow: `)
      if (more !== undefined) dripping = setInterval(() => socket.write(more), 500)
      return socket
    }),
  )
  return {
    get open() {
      return open
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
    },
  }
}

describe("clients that begin requests and do not finish them", () => {
  test("do not end a service that may open no more files, which answers again once they are gone", async () => {
    const options = JSON.stringify({ http: { port: 0 } })
    const limited = { prefix: ["sh", "-c", 'ulimit -n 200; exec "$0" "$@"'] }
    const service = keep(spawnScript(serviceProgram(), ["memory://files", options], limited))
    const [, url = ""] = await service.waitForLine(/^ready (http\S+)/, DEADLINE)
    {
      await using _clients = await halfRequests(url, 400)
      const answer = ask(`${url}/healthz`, { signal: AbortSignal.timeout(2_000) })
      await expect(answer, "no file is left").rejects.toThrow()
    }
    const isUp = async () => {
      expect(service.exit, service.output).toBeUndefined()
      const answer = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(2_000) }).catch(() => undefined)
      return answer?.status === 200
    }
    await eventually(isUp, { deadline: DEADLINE, every: 200, message: "it answers again" })
  })

  // Deno's server has no deadline for the head of a request.
  if (!("Deno" in globalThis)) {
    test("are cut off after some seconds, although they send a little all the time", async () => {
      const [, url] = await startService("memory://heads")
      await using silent = await halfRequests(url, 20)
      await using dripping = await halfRequests(url, 20, "x")
      expect([silent.open, dripping.open]).toEqual([20, 20])
      await eventually(() => silent.open + dripping.open === 0, { message: "all are closed" })
      expect(await ask(`${url}/healthz`)).toMatchObject({ status: 200 })
    })
  }
})

describe("a stop", () => {
  test("waits two seconds for a body that does not arrive", async () => {
    const [service, url] = await startService("memory://stopped")
    const { hostname, port } = new URL(url)
    const socket = dial(Number(port), hostname)
    try {
      await once(socket, "connect")
      socket.on("error", () => undefined)
      socket.write("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
      socket.write('Content-Length: 100\r\n\r\n{"task":')
      // The service has read what was sent before: its answers come in order.
      await ask(`${url}/healthz`)
      const closed = once(socket, "close")
      const began = performance.now()
      service.kill("SIGTERM")
      await Promise.all([service.exited, closed])
      expect(performance.now() - began).toBeLessThan(20_000)
      expect(service.exit).toMatchObject({ code: 0 })
    } finally {
      socket.destroy()
    }
  })

  test("lets a body that arrives meanwhile be complete", async () => {
    const [service, url] = await startService("memory://arriving")
    const { hostname, port } = new URL(url)
    const socket = dial(Number(port), hostname)
    try {
      await once(socket, "connect")
      let answer = ""
      socket.setEncoding("utf8").on("data", (text) => {
        answer += String(text)
      })
      socket.write("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
      socket.write('Content-Length: 19\r\n\r\n{"task":')
      await ask(`${url}/healthz`)
      service.kill("SIGTERM")
      await service.waitForLine(/stopping/, DEADLINE)
      socket.write('"e2e.step"}')
      await eventually(() => answer.includes("\r\n\r\n"), { message: "it is answered" })
      expect(answer).toMatch(/^HTTP\/1.1 202 /)
      expect(await service.exited).toMatchObject({ code: 0 })
    } finally {
      socket.destroy()
    }
  })
})

test("a service on its own prints nothing about the runtime", async () => {
  const options = JSON.stringify({ http: { port: 0 } })
  const run = "Deno" in globalThis ? ["run", "-A", "--node-modules-dir=manual"] : []
  const service = keep(spawnProcess(process.execPath, [...run, serviceProgram(), "memory://quiet", options]))
  const [, url = ""] = await service.waitForLine(/^ready (http\S+)/, DEADLINE)
  expect(await submit(url, { task: "e2e.step", input: {} }, { prefer: "wait=10" })).toMatchObject({ status: 200 })
  expect(await ask(`${url}/v1/jobs`)).toMatchObject({ status: 200 })
  expect(service.stderr).toBe("")
})

describe("while NATS is away", () => {
  const outages: ReadonlyArray<
    readonly [string, (server: NatsServer) => void | Promise<void>, (server: NatsServer) => void | Promise<void>]
  > = [
    ["its server has ended", (server) => server.kill(), (server) => server.restart()],
    ["its server does not answer", (server) => server.pause(), (server) => server.resume()],
  ]
  test.each(outages)(
    "because %s: 503 with the id within two seconds, and that id can be submitted again",
    async (_why, away, back) => {
      const server = keep(await startNats())
      const [, url] = await startService(server.url)
      const task = { task: "e2e.step", input: {} }
      expect((await submit(url, task, { prefer: "wait=10" })).status).toBe(200)
      await away(server)
      const [refused, ms] = await fastest(2_000, () => submit(url, task))
      expect(ms).toBeLessThan(2_000)
      expect(refused).toMatchObject({ status: 503, body: { code: "transport-unavailable", id: expect.any(String) } })
      expect(["none", "unknown"]).toContain(refused.body["outcome"])
      expect(Number(refused.retryAfter)).toBeGreaterThan(0)
      await back(server)
      const { id } = refused.body
      const accepted = await eventually(
        async () => {
          const answer = await submit(url, { ...task, id })
          return answer.status === 202 ? answer : undefined
        },
        { deadline: DEADLINE, every: 200, message: "the service accepts again" },
      )
      expect(accepted.body).toMatchObject({ id })
      const result = await eventually(
        async () => {
          const answer = await ask(`${url}/v1/jobs/${id}/result?wait=5s`)
          return answer.status === 200 ? answer : undefined
        },
        { deadline: DEADLINE, message: "the job ends" },
      )
      expect(result.body).toMatchObject({ id, state: "succeeded" })
      const jobs = (await ask(`${url}/v1/jobs`)).body["jobs"]
      expect(jobs).toHaveLength(2)
    },
  )
})
