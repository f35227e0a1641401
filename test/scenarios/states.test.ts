/** The states of jobs that have not ended: every door says the same numbers, also while limits hold jobs up. */
import { actor, type Client, connect, type Service } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { makeProject } from "../cli/project.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

interface Numbers {
  readonly deferred: number
  readonly scheduled: number
  readonly queued: number
  readonly started: number
}
type Doors = Readonly<Record<string, () => Promise<Partial<Numbers>>>>

/** Workers report what they do every two seconds. */
const WITHIN_MS = 10_000

const ofEach = async (ask: (state: keyof Numbers) => Promise<number>): Promise<Numbers> => ({
  deferred: await ask("deferred"),
  scheduled: await ask("scheduled"),
  queued: await ask("queued"),
  started: await ask("started"),
})

const counted = ({ deferred, scheduled, queued, started }: Numbers): Numbers => ({
  deferred,
  scheduled,
  queued,
  started,
})

interface Queue {
  readonly depth: number
  readonly scheduled: number
  readonly running: number
}
/** A deferred job is in no queue. */
const inQueues = (queues: ReadonlyArray<Queue>): Partial<Numbers> => {
  const sum = (field: keyof Queue): number => queues.reduce((all, queue) => all + queue[field], 0)
  return { scheduled: sum("scheduled"), queued: sum("depth"), started: sum("running") }
}

/** What each door says about a board with one worker. */
const doorsOf = ({ url = "", client }: Service): Doors => {
  const get = async (path: string) => (await fetch(new URL(path, url))).json()
  const metric = async (name: string): Promise<number> =>
    Number(
      new RegExp(`^callboard_${name} (\\d+)$`, "m").exec(await (await fetch(new URL("/metrics", url))).text())?.[1],
    )
  const label = '{queue="default"}'
  return {
    "client.count": () => ofEach(async (state) => (await client.count({ states: [state] })).count),
    "client.jobs": () => ofEach(async (state) => (await client.jobs({ states: [state], limit: 1_000 })).jobs.length),
    "client.queues": async () => inQueues(await client.queues()),
    "client.workers": async () => ({ started: (await client.workers())[0]?.busy ?? 0 }),
    "/v1/count": () => ofEach(async (state) => (await get(`/v1/count?state=${state}`)).count),
    "/v1/jobs": () => ofEach(async (state) => (await get(`/v1/jobs?state=${state}&limit=1000`)).jobs.length),
    "total of /v1/jobs": () => ofEach(async (state) => (await get(`/v1/jobs?state=${state}&count=true`)).total.value),
    "/v1/queues": async () => inQueues((await get("/v1/queues")).queues),
    "/v1/workers": async () => ({ started: (await get("/v1/workers")).workers[0].busy }),
    "/v1/stats": async () => counted((await get("/v1/stats")).counts),
    "handlers of /v1/stats": async () => ({ started: (await get("/v1/stats")).handlers.busy }),
    "/v1/pulse": async () => counted((await get("/v1/pulse")).counts),
    "metrics of the queue": async () => ({
      scheduled: await metric(`queue_scheduled${label}`),
      queued: await metric(`queue_depth${label}`),
      started: await metric(`queue_running${label}`),
    }),
    "metrics of the worker": async () => ({ started: await metric("worker_running") }),
  }
}

/** What the command line says, in another process: it does not reach a board in memory. */
const commandsOf = (transport: string): Doors => {
  if (transport.startsWith("memory:")) return {}
  const project = makeProject({})
  onTestFinished(() => project[Symbol.dispose]())
  project.env["CALLBOARD_TRANSPORT"] = transport
  const jobs = (state: string, ...more: ReadonlyArray<string>) =>
    project.json<{ readonly jobs: ReadonlyArray<object>; readonly count: number }>("jobs", "--state", state, ...more)
  return {
    "callboard jobs": () => ofEach(async (state) => (await jobs(state, "--limit", "1000")).jobs.length),
    "callboard jobs --count": () => ofEach(async (state) => (await jobs(state, "--count")).count),
    "callboard queues": async () =>
      inQueues((await project.json<{ readonly queues: ReadonlyArray<Queue> }>("queues")).queues),
    "callboard workers": async () => {
      const { workers } = await project.json<{ readonly workers: Awaited<ReturnType<Client["workers"]>> }>("workers")
      return { started: workers[0]?.busy ?? 0 }
    },
    "callboard stats": async () => counted((await project.json<{ readonly counts: Numbers }>("stats")).counts),
  }
}

onEveryBoard((newBoard) => {
  const scene = async () => {
    const transport = newBoard()
    const gate = Promise.withResolvers<void>()
    let begun = 0
    const hold = async () => {
      begun++
      await gate.promise
    }
    const work = actor("work", {
      methods: {
        one: { limit: { concurrency: 1, key: "of" }, run: async (_: { readonly of: string }) => hold() },
        rated: { limit: { rate: "1/h", key: "of" }, run: async (_: { readonly of: string }) => hold() },
        early: { acks: { when: "early" }, run: hold },
        flaky: {
          limit: { concurrency: 1 },
          retry: { max: 1, interval: [1] },
          run: async (fails: boolean, job) => {
            if (fails && job.attempt === 1) throw new Error("no")
            await hold()
          },
        },
      },
    })
    const service = await start([work], { transport, concurrency: 4, http: { port: 0 }, metrics: true })
    onTestFinished(() => gate.resolve())
    const client = await connect(transport)
    onTestFinished(() => client.close())
    const doors = { ...doorsOf(service), ...commandsOf(transport) }
    return {
      client,
      begun: (times: number) => eventually(() => begun === times, { message: `${times} handlers have begun` }),
      /** Every door says these numbers, as far as it says any. */
      say: async (numbers: Numbers) => {
        for (const [door, ask] of Object.entries(doors))
          await expect
            .poll(async () => ({ ...numbers, ...(await ask()) }), { timeout: WITHIN_MS, message: door })
            .toEqual(numbers)
      },
      limits: (task: string, expected: object) =>
        expect
          .poll(
            async () => {
              const { limits } = await (await fetch(new URL("/v1/limits", service.url))).json()
              const path = `/v1/limits/${task}/keys`
              const { keys } = await (await fetch(new URL(path, service.url))).json()
              const { running, held } = limits.find((each: { readonly task: string }) => each.task === task)
              return { running, held, keys: keys.map((each: { readonly held: number }) => each.held) }
            },
            { timeout: WITHIN_MS },
          )
          .toEqual(expected),
    }
  }

  test("jobs that a limit holds up are queued: in all lists, counts and metrics", async () => {
    const { client, say, begun, limits } = await scene()
    const [first] = await client.submitMany(
      Array.from({ length: 4 }, () => ({ task: "work.one", input: { of: "ann" } })),
    )
    await client.submit("work.one", { input: { of: "ann" }, delay: "1 hour" })
    await client.submit("work.one", { input: { of: "ann" }, after: first instanceof Error ? "" : (first?.id ?? "") })
    await client.submit("work.early")
    await begun(2)
    await say({ deferred: 1, scheduled: 1, queued: 3, started: 2 })
    await limits("work.one", { running: 1, held: 3, keys: [3] })
  })

  test("jobs that a rate holds up are queued, also those that went back to their queue", async () => {
    const { client, say, begun, limits } = await scene()
    const rated = (count: number) =>
      client.submitMany(Array.from({ length: count }, () => ({ task: "work.rated", input: { of: "ann" } })))
    await rated(5)
    await begun(1)
    // A rate has no permits.
    await limits("work.rated", { running: 0, held: 4, keys: [4] })
    await rated(195)
    await say({ deferred: 0, scheduled: 0, queued: 199, started: 1 })
  })

  test("a job that waits for a limit before its second attempt is queued", async () => {
    const { client, say, begun, limits } = await scene()
    const { id } = await client.submit("work.flaky", { input: true })
    await eventually(async () => (await client.job(id).find()).state === "scheduled", { message: "it retries" })
    await client.submit("work.flaky", { input: false })
    await begun(1)
    await limits("work.flaky", { running: 1, held: 1, keys: [1] })
    await say({ deferred: 0, scheduled: 0, queued: 1, started: 1 })
    expect(await client.job(id).find()).toMatchObject({ state: "queued", attempts: 1 })
    expect(await client.why(id)).toMatchObject({ state: "queued", causes: [{ code: "concurrency-limit" }] })
  })
})
