/** A worker without its broker, with real servers that are killed, restarted, frozen and locked. */

import { fileURLToPath } from "node:url"
import { actor, CallboardError, type Client, connect, type ServeOptions, type Service, serve } from "callboard"
import { connect as dial } from "nats"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { Names } from "../../plugins/nats/mod.ts"
import { generateId } from "../../runtime/id.ts"
import { makeProject } from "../cli/project.ts"
import { listingLog } from "../support/listing-log.ts"
import { type NatsServer, startNats } from "../support/servers/nats.ts"
import { startNatsCluster } from "../support/servers/nats-cluster.ts"
import { eventually, freePort, isRunning, spawnScript } from "../support/servers/process.ts"
import { scope } from "./boards.ts"

/** What ends with its test: the groups of this file run side by side, since each waits for most of its time. */
type Kept = Pick<ReturnType<typeof scope>, "keep">

/** A worker with HTTP, which notes how often each job ran to its end, and when any did. */
const startService = async ({ keep }: Kept, transport: string, options: ServeOptions = {}) => {
  const { lines, log } = listingLog()
  const runs = new Map<string, number>()
  const ended: Array<number> = []
  const gates = new Map<string, () => void>()
  const steps = actor("steps", {
    methods: {
      run: async (_, job) => {
        // So long that a few hundred keep a worker busy for seconds.
        await new Promise((resolve) => setTimeout(resolve, 40))
        ended.push(performance.now())
        runs.set(job.id, (runs.get(job.id) ?? 0) + 1)
      },
      wait: (_, job) => new Promise<string>((resolve) => gates.set(job.id, () => resolve("waited"))),
    },
  })
  const service = keep(
    await serve({
      transport,
      actors: [steps],
      signals: false,
      http: { port: 0 },
      log,
      reconnect: { base: 0.02, cap: 0.2 },
      ...options,
    }),
  )
  await service.ready()
  const readiness = async () => (await fetch(`${service.url}/readyz`)).status
  return {
    service,
    lines,
    runs,
    ended,
    gates,
    red: (deadline = 10_000) => eventually(async () => (await readiness()) === 503, { deadline }),
    green: (deadline = 10_000) => eventually(async () => (await readiness()) === 200, { deadline }),
  }
}

const clientOf = async ({ keep }: Kept, url: string): Promise<Client> => keep(await connect(url))

/**
 * Ends a server in good order; `restart` brings it back. One that is killed forgets what it handed over in the last
 * moments, and hands it over again.
 */
const shutDown = async ({ pid }: NatsServer): Promise<void> => {
  process.kill(pid, "SIGTERM")
  await eventually(() => !isRunning(pid))
}

/** Submits one job under an id of its own, again until it is accepted. */
const persist = async (client: Client, task: string): Promise<string> => {
  const id = generateId()
  await eventually(() => client.submit(task, { id }), { deadline: 60_000, every: 20 })
  return id
}

/** Nothing is held by the worker, and nothing by the broker for it. */
const isEmpty = async ({ client, worker }: Service): Promise<boolean> => {
  const queues = await client.queues()
  return worker?.describe().inFlight === 0 && queues.every(({ depth, inFlight }) => depth + inFlight === 0)
}

const endedOnce = async (client: Client, ids: ReadonlyArray<string>): Promise<void> => {
  for (const id of ids) {
    const view = await client.job(id).find()
    expect(view.transitions.filter(({ state }) => state === "succeeded")).toHaveLength(1)
  }
}

/** Many times the slots of the worker: it stands still if a restart costs it one. */
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
        // It is back within a moment. On a busy machine the test may not see that the worker was not ready.
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
    const reduced = lines.indexOf(
      "Temporarily reducing the prefetch count to 10 to avoid over-fetching since 5 tasks are currently being processed.",
    )
    expect(reduced).toBeGreaterThanOrEqual(0)
    expect(lines[reduced + 1]).toBe(
      "The prefetch count will be gradually restored to 20 as the tasks complete processing.",
    )
    for (const end of gates.values()) end()
    for (const job of jobs) expect(await job.result({ timeout: 60 })).toBe("waited")
    expect(lines).toContain(
      "Resuming normal operations following a restart. Prefetch count has been restored to the maximum of 20",
    )
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
    expect(lines).toContain("the connection is lost: 1 running task(s) are handed back")
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

  test.sequential("a server that is frozen is noticed by the heartbeat; without one it is not", async () => {
    await using own = scope()
    const watched = await startService(own, board(), { heartbeatMs: 1_000 })
    const unwatched = await startService(own, board(), { heartbeatMs: 0 })
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
      expect(took).toBeLessThan(2_500)
      expect(lost).toBe(false)
    } finally {
      server.resume()
    }
    await watched.green()
    await unwatched.green()
  })

  test.sequential("what HTTP says was not accepted stays so when a frozen server wakes up right after the answer", {
    timeout: 60_000,
  }, async () => {
    await using own = scope()
    const { service, runs } = await startService(own, board())
    const { client } = service
    const post = async (input: number, headers: Readonly<Record<string, string>>) => {
      const response = await fetch(`${service.url}/v1/jobs`, {
        method: "POST",
        headers: { "content-type": "application/json", prefer: "handling=lenient", ...headers },
        // The queue is asked from the store where this process does not serve the actor.
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
      await client.submit("steps.run", { id: `after-${round}` }).then((job) => job.result({ timeout: 20 }))
    }
    expect(said.none).toBeGreaterThan(0)
    const { jobs } = await service.client.jobs({ limit: 1_000 })
    const accepted = jobs.filter(({ id }) => !id.startsWith("after-"))
    expect(accepted.length).toBeLessThanOrEqual(said.unknown)
    // Under its key each of them is accepted now, and once.
    const again = await Promise.all(
      [0, 1, 2].map((round) =>
        // A connection that missed its pings while the server was frozen may be made anew just now: then it is asked again.
        eventually(
          async () => {
            const answer = await post(0, { "idempotency-key": `key-${round}-0` })
            return answer.status === 503 ? undefined : answer
          },
          { deadline: 20_000, every: 100 },
        ),
      ),
    )
    expect(again.map(({ status }) => status)).toEqual([202, 202, 202])
    await eventually(() => again.every(({ body }) => runs.get(body.id) === 1), { deadline: 20_000 })
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
    expect(stderr).toMatch(/^callboard: the worker gives up: cannot connect to 127\.0\.0\.1:1/m)
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

/** A worker that starts without its broker. */
const runAway = async (...args: ReadonlyArray<string>) => {
  using project = makeProject()
  project.env["CALLBOARD_TRANSPORT"] = "nats://127.0.0.1:1"
  project.env["CALLBOARD_RECONNECT_BASE"] = "0.02"
  return await project.run("worker", ...args)
}

/** A worker at its stock of jobs, and ways to disturb the cluster that it works on. */
const setup = async (own: Kept, only?: string) => {
  const cluster = own.keep(await startNatsCluster(3))
  const names = new Names(generateId())
  const options = `?ns=${names.namespace}&replicas=3&lease=3`
  // JetStream is there when the servers have found each other.
  const client = own.keep(await eventually(() => connect(`${cluster.url}${options}`), { deadline: 60_000, every: 250 }))
  const url = only === undefined ? cluster.url : cluster.servers.get(only)?.url
  const worker = await startService(own, `${url}${options}`, { concurrency: 2 })
  const servers = [...cluster.servers.values()].map((server) => server.url)
  const admin = await dial({ servers, maxReconnectAttempts: -1, reconnectTimeWait: 50 })
  own.keep({ [Symbol.asyncDispose]: () => admin.close() })
  const ask = async (subject: string): Promise<unknown> =>
    (await admin.request(`$JS.API.${subject}`, "{}", { timeout: 1_000 })).json()
  const consumer = `${names.queueStream}.${names.consumer("default", 4)}`
  const leader = () =>
    eventually(async () => leaderIn(await ask(`CONSUMER.INFO.${consumer}`)), { message: "the consumer has a leader" })
  /** Resolves when the consumer and both streams have leaders, and none of them is the server that has died. */
  const elected = async (dead: string): Promise<void> => {
    const streams = [names.queueStream, names.stateStream].map((stream) => `STREAM.INFO.${stream}`)
    for (const subject of [`CONSUMER.INFO.${consumer}`, ...streams]) {
      await eventually(
        async () => {
          const name = leaderIn(await ask(subject))
          return name !== undefined && name !== dead
        },
        { deadline: 60_000, every: 50, message: `${subject} has a new leader` },
      )
    }
  }
  const accepted: Array<string> = []
  /** Submits that many jobs. While a stream elects its leader some or all of them are refused: these are submitted again. */
  const stock = async (count: number): Promise<void> => {
    const goal = accepted.length + count
    await eventually(
      async () => {
        const missing = Array.from({ length: goal - accepted.length }, () => ({ task: "steps.run" }))
        for (const receipt of await client.submitMany(missing)) {
          if (!(receipt instanceof CallboardError)) accepted.push(receipt.id)
        }
        return accepted.length >= goal
      },
      { deadline: 60_000, every: 50, message: `${count} jobs are accepted` },
    )
  }
  const stepDown = async () => {
    const streams = [names.queueStream, names.stateStream].map((stream) => `STREAM.LEADER.STEPDOWN.${stream}`)
    for (const subject of [`CONSUMER.LEADER.STEPDOWN.${consumer}`, ...streams]) {
      // While a new leader is elected no server answers.
      await eventually(() => ask(subject), { deadline: 20_000 })
    }
  }
  return {
    ...worker,
    cluster,
    leader,
    /** The leader, once it is another than this server. */
    leaderButNot: (server: string) =>
      eventually(
        async () => {
          const name = await leader()
          if (name !== server) return name
          await stepDown()
          return undefined
        },
        { deadline: 60_000, every: 200 },
      ),
    elected,
    accepted,
    stock,
    stepDown,
    /** Disturbs the cluster in the middle of work; says how long no job ended. */
    through: async (what: string, disturb: () => Promise<void>): Promise<void> => {
      const ended = () => worker.ended.length
      const before = ended()
      // Submitted before, so that what is measured is the worker alone: two at a time take seven seconds.
      await stock(350)
      await eventually(() => ended() > before + 20, { deadline: 60_000, message: `consuming before ${what}` })
      const began = performance.now()
      await disturb()
      await eventually(() => worker.ended.some((at) => at > began + 4_000), {
        deadline: 60_000,
        message: `consuming after ${what}`,
      })
      await worker.green(20_000)
      const times = worker.ended.filter((at) => at > began - 100)
      const longest = Math.max(...times.map((at, n) => at - (times[n - 1] ?? at)))
      console.log(`${what}: no job ended for ${Math.round(longest)} ms`)
      expect(longest).toBeLessThan(30_000)
    },
    over: async () => {
      await eventually(() => accepted.every((id) => worker.runs.has(id)), {
        deadline: 60_000,
        message: "a job is lost",
      })
      await eventually(() => isEmpty(worker.service), { deadline: 60_000, every: 200, message: "something is held" })
    },
  }
}

describe.concurrent("in a cluster of three", () => {
  test.sequential("whose leader steps down and dies, consumption resumes by itself", { timeout: 180_000 }, async () => {
    await using own = scope()
    const bench = await setup(own)
    await bench.through("three changes of all leaders", async () => {
      for (let times = 0; times < 3; times++) await bench.stepDown()
    })
    const leader = await bench.leader()
    await bench.through(`the death of the leader`, async () => bench.cluster.servers.get(leader)?.kill())
    await bench.through(`its return`, async () => bench.cluster.servers.get(leader)?.restart())
    await bench.over()
  })
})

describe.concurrent("on one server of a cluster of three", () => {
  test.sequential("a worker that waits is given what comes after the leader has died that it had asked", {
    timeout: 180_000,
  }, async () => {
    await using own = scope()
    const bench = await setup(own, "n1")
    // Once it has run something it waits for more. How long that takes tells how busy the machine is.
    const before = performance.now()
    await bench.stock(1)
    await bench.over()
    const usual = performance.now() - before
    const leader = await bench.leaderButNot("n1")
    await bench.cluster.servers.get(leader)?.kill()
    await bench.stock(1)
    // How long the servers need to elect the leaders of their streams and of the consumer, each by itself, is theirs; the
    // worker's time begins when all are there.
    await bench.elected(leader)
    const began = performance.now()
    await bench.over()
    const took = Math.round(performance.now() - began)
    console.log(`a worker that waited ran a job ${took} ms after all leaders were there`)
    expect(took).toBeLessThan(15_000 + 20 * usual)
  })

  test.sequential("a worker whose own server lives is red while there is no leader", { timeout: 180_000 }, async () => {
    await using own = scope()
    const bench = await setup(own, "n1")
    const leader = await bench.leaderButNot("n1")
    const others = [...bench.cluster.servers].filter(([name]) => name !== "n1").map(([, server]) => server)
    const began = performance.now()
    // Both others: without a majority there is no leader for as long as it takes.
    await Promise.all(others.map((server) => server.kill()))
    await bench.red(15_000)
    console.log(`a worker without a leader (${leader}) is red after ${Math.round(performance.now() - began)} ms`)
    expect(bench.lines.some((line) => /Trying again in .* \(1\/100\)/.test(line))).toBe(true)
    await Promise.all(others.map((server) => server.restart()))
    const back = performance.now()
    await bench.green(40_000)
    console.log(`and green ${Math.round(performance.now() - back)} ms after the others are back`)
    await bench.stock(10)
    await bench.over()
  })
})

/** Longest time that a submission may take to fail, as the README says. */
const REFUSED_MS = 5_000
/** What a busy machine may add to it. */
const LATE_MS = 4_000

describe.concurrent("submitting to a cluster of three", () => {
  test.sequential("without a leader fails in time, of whatever kind it is, and goes through once there is one", {
    timeout: 180_000,
  }, async () => {
    await using own = scope()
    const cluster = own.keep(await startNatsCluster(3))
    const names = new Names(generateId())
    const servers = [...cluster.servers.values()].map(({ url }) => url)
    const [first, ...others] = cluster.servers.values()
    const url = `${first?.url}?ns=${names.namespace}&replicas=3`
    const client = own.keep(await eventually(() => connect(url), { deadline: 60_000, every: 250 }))
    await eventually(() => client.submit("steps.run"), { deadline: 60_000, every: 250 })
    const admin = await dial({ servers, maxReconnectAttempts: -1, reconnectTimeWait: 50 })
    own.keep({ [Symbol.asyncDispose]: () => admin.close() })
    const leader = async () => {
      const answer = await admin.request(`$JS.API.STREAM.INFO.${names.queueStream}`, "{}", { timeout: 500 })
      return leaderIn(answer.json())
    }
    const kinds: ReadonlyArray<(id: string) => Promise<unknown>> = [
      () => client.submit("steps.run"),
      () => client.submit("steps.run", { delay: 60 }),
      (id) => client.submit("steps.run", { id }),
      // What is not known yet is asked for first.
      (id) => client.submit(`actor-${id}.run`),
      (id) => client.submit(`actor-${id}.run`, { queue: "default" }),
      (id) => client.submit("steps.run", { queue: `queue-${id}` }),
      async (id) => {
        const names = Array.from({ length: 5 }, (_, at) => ({ task: `many-${at}-${id}.run`, queue: "default" }))
        const [receipt] = await client.submitMany(names)
        if (receipt instanceof CallboardError) throw receipt
      },
    ]
    let longest = 0
    const refused: Array<string> = []
    const failing = async (submit: (id: string) => Promise<unknown>, rounds: number): Promise<void> => {
      for (let round = 0; round < rounds; round++) {
        const id = generateId()
        const began = performance.now()
        const error = await submit(id).catch((cause: unknown) => cause)
        longest = Math.max(longest, performance.now() - began)
        expect(error).toMatchObject({ code: "transport-unavailable" })
        refused.push(id)
      }
    }
    // Both others: there is no leader for as long as it takes. What is under way at that moment is refused as well.
    const killed = Promise.all(others.map((server) => server.kill()))
    const before = kinds.map((submit) => submit(generateId()).catch(() => undefined))
    await killed
    await Promise.all(kinds.map((submit) => failing(submit, 3)))
    await Promise.all(before)
    console.log(`without a leader ${refused.length} submissions failed, after ${Math.round(longest)} ms at most`)
    expect(longest).toBeLessThan(REFUSED_MS + LATE_MS)

    await Promise.all(others.map((server) => server.restart()))
    await eventually(leader, { deadline: 60_000, every: 20, message: "there is a leader" })
    const led = performance.now()
    const again = refused[0] ?? ""
    await eventually(() => client.submit("steps.run", { id: again, queue: "default" }), { deadline: 60_000, every: 20 })
    console.log(`a submission went through ${Math.round(performance.now() - led)} ms after there was one`)
    // The same once more, as the refusal says.
    for (const id of refused) await eventually(() => client.submit("steps.run", { id }), { deadline: 60_000 })
    for (const id of refused) expect((await client.job(id).find()).state).toBe("queued")
  })
})

/** Who leads what an answer of the API describes. */
const leaderIn = (answer: unknown): string | undefined => {
  const cluster = typeof answer === "object" && answer !== null && "cluster" in answer ? answer.cluster : undefined
  const leader = typeof cluster === "object" && cluster !== null && "leader" in cluster ? cluster.leader : undefined
  return typeof leader === "string" && leader !== "" ? leader : undefined
}

describe.concurrent("on sqlite", () => {
  test.sequential("a database that another program locks makes the worker wait, and go on", {
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
    // A locked database can still be read; only a write fails.
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
