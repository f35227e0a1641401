/**
 * A worker without its broker, with real servers that are killed, restarted, frozen and locked. Clusters are tested in
 * `test/chaos/leader-loss.test.ts`.
 */
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { makeProject } from "../cli/project.ts"
import { type NatsServer, startNats } from "../support/servers/nats.ts"
import { eventually, freePort, spawnScript } from "../support/servers/process.ts"
import { scope } from "./boards.ts"
import { clientOf, endedOnce, isEmpty, persist, shutDown, startService } from "./broker-worker.ts"

/** Many times the slots of the worker: a worker that lost a slot at each restart would have none left. */
const RESTARTS = 30

describe.concurrent("on a nats-server", () => {
  let server: NatsServer
  beforeAll(async () => {
    server = await startNats()
  })
  afterAll(() => server?.stop())
  const board = (lease = 30) => `${server.url}?ns=${generateId()}&lease=${lease}`

  test.sequential(`${RESTARTS} restarts in a row: consumption resumes by itself each time, nothing is lost, no slot leaks`, {
    timeout: 180_000,
  }, async () => {
    await using own = scope()
    const url = board(3)
    const { service, lines, runs, red, green } = await startService(own, url, { concurrency: 4 })
    const client = await clientOf(own, url)
    const accepted: Array<string> = []
    const began = performance.now()
    const back: Array<number> = []
    const reconnects = () => lines.filter((line) => line === "connected again").length
    for (let restart = 0; restart < RESTARTS; restart++) {
      const before = reconnects()
      accepted.push(...(await Promise.all([1, 2, 3].map(() => persist(client, "steps.run")))))
      if (restart % 2 === 0) {
        await server.kill()
        await red()
        await server.restart()
      } else {
        // The server is back so soon that on a busy machine the test may not see the worker as not ready.
        await server.restart()
        await eventually(() => reconnects() > before, { message: "the loss was not noticed" })
      }
      const since = performance.now()
      await green()
      const id = await persist(client, "steps.run")
      accepted.push(id)
      await eventually(() => runs.has(id), { message: `consumption did not resume after restart ${restart + 1}` })
      back.push(performance.now() - since)
    }
    const took = performance.now() - began
    await eventually(() => isEmpty(service), { deadline: 60_000, every: 100, message: "something is still held" })
    expect(accepted.filter((id) => !runs.has(id))).toEqual([])
    await endedOnce(client, accepted)
    back.sort((a, b) => a - b)
    const ms = (part: number) => Math.round(back[Math.floor(part * (back.length - 1))] ?? 0)
    console.log(
      `${RESTARTS} restarts in ${Math.round(took)} ms; back and consuming: median ${ms(0.5)} ms, 99 % ${ms(0.99)} ms, worst ${ms(1)} ms`,
    )
    expect(reconnects()).toBeGreaterThanOrEqual(RESTARTS)
  })

  test.sequential("running tasks go on, the prefetch is reduced and restored, and their outcome is stored", async () => {
    await using own = scope()
    const url = board()
    const { service, lines, gates, red, green } = await startService(own, url, { concurrency: 10, prefetch: 2 })
    const jobs = await Promise.all(Array.from({ length: 5 }, () => service.client.submit("steps.wait")))
    await eventually(() => gates.size === 5)
    await shutDown(server)
    await red()
    await server.restart()
    await green()
    const reduced = lines.findIndex((line) => /^Temporarily reducing the prefetch count to 10 .* 5 tasks/.test(line))
    expect(reduced).toBeGreaterThanOrEqual(0)
    expect(lines[reduced + 1]).toContain("restored to 20")
    for (const end of gates.values()) end()
    for (const job of jobs) expect(await job.result({ timeout: 60 })).toBe("waited")
    // The worker may hear after this client that the last outcome is stored.
    await eventually(() => lines.some((line) => line.endsWith("restored to the maximum of 20")), {
      message: "the prefetch is restored",
    })
    expect((await jobs[0]?.find())?.attempts).toBe(1)
  })

  test.sequential("a handler that ends during the outage has its outcome stored when the broker is back", async () => {
    await using own = scope()
    const { service, gates, red } = await startService(own, board())
    const job = await service.client.submit("steps.wait")
    await eventually(() => gates.size === 1)
    await shutDown(server)
    await red()
    for (const end of gates.values()) end()
    await server.restart()
    expect(await job.result({ timeout: 60 })).toBe("waited")
    await eventually(() => isEmpty(service))
  })

  test.sequential("with cancelOnConnectionLoss running tasks are handed back, uncounted, and run again at once", async () => {
    await using own = scope()
    const { service, lines, gates, red, green } = await startService(own, board(), { cancelOnConnectionLoss: true })
    const job = await service.client.submit("steps.wait")
    await eventually(() => gates.size === 1)
    await shutDown(server)
    await red()
    expect(lines).toContainEqual(expect.stringMatching(/^the connection is lost: 1 running task/))
    for (const end of gates.values()) end()
    gates.clear()
    await server.restart()
    await green()
    await eventually(() => gates.size === 1)
    for (const end of gates.values()) end()
    expect(await job.result({ timeout: 60 })).toBe("waited")
    expect((await job.find()).retries).toBe(0)
    expect(lines.join("\n")).not.toMatch(/prefetch count/)
  })

  test.sequential("a frozen server is noticed by the heartbeat, and without a heartbeat it is not", async () => {
    await using own = scope()
    const watched = await startService(own, board(), { heartbeat: 1 })
    const unwatched = await startService(own, board(), { heartbeat: 0 })
    let lost = false
    unwatched.service.client.connection.transport.onStatus(() => {
      lost = true
    })
    const began = performance.now()
    server.pause()
    try {
      await watched.red()
      const took = performance.now() - began
      console.log(`a frozen server was noticed after ${Math.round(took)} ms with a heartbeat of 1 s`)
      // Without a heartbeat of its own it would take half a minute.
      expect(took).toBeLessThan(5_000)
      expect(lost).toBe(false)
    } finally {
      server.resume()
    }
    await watched.green()
    await unwatched.green()
  })

  test.sequential("a task that HTTP refused as not accepted is never accepted, also when a frozen server wakes up right after the answer", {
    timeout: 120_000,
  }, async () => {
    await using own = scope()
    const { service, runs } = await startService(own, board())
    const { client } = service
    const post = async (input: number, headers: Readonly<Record<string, string>>) => {
      const response = await fetch(`${service.url}/v1/jobs`, {
        method: "POST",
        headers: { "content-type": "application/json", prefer: "handling=lenient", ...headers },
        // For an actor that this process does not serve, it reads the queue from the store.
        body: JSON.stringify({ task: input % 2 === 0 ? "steps.run" : `unknown-${input}.run`, input }),
      })
      const body = (await response.json()) as { readonly id: string; readonly outcome?: string }
      return { status: response.status, body }
    }
    const said = { none: 0, unknown: 0 }
    for (const [round, wakeAfter] of [20, 60, 120].entries()) {
      const requests = Array.from({ length: 6 }, (_, n): Parameters<typeof post> => {
        return [n, n < 4 ? { "idempotency-key": `key-${round}-${n}` } : {}]
      })
      server.pause()
      try {
        for (const { status, body } of await Promise.all(requests.map((request) => post(...request)))) {
          expect(status).toBe(503)
          if (body.outcome === "none") said.none++
          else said.unknown++
        }
        await new Promise((resolve) => setTimeout(resolve, wakeAfter))
      } finally {
        server.resume()
      }
      // Pings that a frozen server left unanswered may have made the client connect again.
      const after = await eventually(() => client.submit("steps.run", { id: `after-${round}` }))
      await after.result({ timeout: 60 })
    }
    expect(said.none).toBeGreaterThan(0)
    const { jobs } = await service.client.jobs({ limit: 1_000 })
    const accepted = jobs.filter(({ id }) => !id.startsWith("after-"))
    expect(accepted.length).toBeLessThanOrEqual(said.unknown)
    // Now each of these tasks is accepted under its key, once.
    const again = await Promise.all(
      [0, 1, 2].map((round) =>
        // A client whose pings were not answered while the server was frozen may just be connecting again; then the test repeats
        // the request.
        eventually(
          async () => {
            const answer = await post(0, { "idempotency-key": `key-${round}-0` })
            return answer.status === 503 ? undefined : answer
          },
          { every: 100 },
        ),
      ),
    )
    expect(again.map(({ status }) => status)).toEqual([202, 202, 202])
    await eventually(() => again.every(({ body }) => runs.get(body.id) === 1))
  })

  test.sequential("with reconnecting off, the loss of the broker ends the worker", async () => {
    await using own = scope()
    const { service, lines } = await startService(own, board(), { reconnect: { enabled: false } })
    await server.kill()
    expect(await service.failed).toMatchObject({ reason: "unavailable" })
    expect(lines.join("\n")).not.toMatch(/Trying again/)
    await server.restart()
  })
})

describe.concurrent("callboard worker", () => {
  test.sequential("finds no broker at the start, tries again, and works when it comes", async () => {
    const port = await freePort()
    using project = makeProject()
    project.env["CALLBOARD_TRANSPORT"] = `nats://127.0.0.1:${port}`
    project.env["CALLBOARD_RECONNECT_BASE"] = "0.05"
    project.env["CALLBOARD_RECONNECT_CAP"] = "0.2"
    await using worker = project.start("worker", "-n", "patient")
    await worker.waitForLine(/Trying again in 0\.\d\d seconds… \(3\/100\)/)
    await using _ = await startNats({ port })
    await worker.waitForLine(/message=ready .*worker=patient/)
    const { result } = await project.json<{ result: unknown }>("submit", "works.echo", '{"a":1}', "--wait")
    expect(result).toEqual({ a: 1 })
  })

  test.sequential("ends with exit code 1 after the last try", async () => {
    const { code, stdout, stderr } = await runAway("--max-tries", "3")
    expect([...stdout.matchAll(/Trying again in \d+\.\d\d seconds… \((\d+)\/3\)/g)].map(([, n]) => n)).toEqual([
      "1",
      "2",
      "3",
    ])
    expect(stderr).toMatch(/^callboard: .*cannot connect to 127\.0\.0\.1:1/m)
    expect(code).toBe(1)
  })

  test.sequential("ends at once, with exit code 4, when it is not to try again at the start", async () => {
    const { code, stdout } = await runAway("--no-reconnect-at-start")
    expect(stdout).not.toMatch(/Trying again/)
    expect(code).toBe(4)
  })

  test.sequential("whose broker is gone for good ends with exit code 1 after the last try", async () => {
    await using server = await startNats()
    using project = makeProject()
    project.env["CALLBOARD_TRANSPORT"] = server.url
    project.env["CALLBOARD_RECONNECT_BASE"] = "0.05"
    await using worker = project.start("worker", "--max-tries", "4")
    await worker.waitForLine(/message=ready/)
    await server.kill()
    const { code } = await worker.closed
    expect(code).toBe(1)
    expect([...worker.stdout.matchAll(/Trying again in \d+\.\d\d seconds… \((\d+)\/4\)/g)].map(([, n]) => n)).toEqual([
      "1",
      "2",
      "3",
      "4",
    ])
  })

  test.sequential("with reconnecting off ends with exit code 1 when its broker is lost", async () => {
    await using server = await startNats()
    using project = makeProject()
    project.env["CALLBOARD_TRANSPORT"] = server.url
    await using worker = project.start("worker", "--no-reconnect")
    await worker.waitForLine(/message=ready/)
    await server.kill()
    const { code } = await worker.closed
    expect(worker.stdout).not.toMatch(/Trying again/)
    expect(code).toBe(1)
  })
})

/** Runs `callboard worker` with the URL of a broker that is not there, to its end. */
const runAway = async (...args: ReadonlyArray<string>) => {
  using project = makeProject()
  project.env["CALLBOARD_TRANSPORT"] = "nats://127.0.0.1:1"
  project.env["CALLBOARD_RECONNECT_BASE"] = "0.02"
  return await project.run("worker", ...args)
}

describe.concurrent("on sqlite", () => {
  test.sequential("while another program locks the database the worker waits, and then it goes on", {
    timeout: 120_000,
  }, async () => {
    await using own = scope()
    const file = `${own.folder}/board.db`
    const { service, lines, gates, red, green } = await startService(own, `sqlite:${file}`)
    const running = await service.client.submit("steps.wait")
    await eventually(() => gates.size === 1)
    const locker = own.keep(spawnScript(fileURLToPath(new URL("lock.ts", import.meta.url)), [file]))
    await locker.waitForLine(/^locked$/)
    const began = performance.now()
    // A locked database can still be read; only writes fail.
    const refused = expect(service.client.submit("steps.run")).rejects.toMatchObject({ code: "transport-unavailable" })
    await red()
    console.log(`a locked database is red after ${Math.round(performance.now() - began)} ms`)
    await refused
    for (const end of gates.values()) end()
    await eventually(() => lines.some((line) => /Trying again in .* \(1\/100\)/.test(line)))
    locker.write("unlock\n")
    await green()
    expect(await running.result({ timeout: 60 })).toBe("waited")
    expect(await (await service.client.submit("steps.run")).outcome({ timeout: 60 })).toMatchObject({
      state: "succeeded",
    })
    await eventually(() => isEmpty(service))
  })
})
