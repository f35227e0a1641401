/** Why a job waits: a table of causes, each brought about for real, on every transport. */
import { actor, type Cause, type Client, connect, type Job, type SubmittedJob } from "callboard"
import { describe, expect, test } from "vitest"
import { startNats } from "../support/servers/nats.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { type NewBoard, onEveryBoard } from "./boards.ts"

const lamp = actor("lamp", { methods: { run: () => "on" } })

/** Runs until it is told to stop. */
const held = async (_input: unknown, job: Job): Promise<void> => {
  await new Promise((resolve) => job.signal.addEventListener("abort", resolve))
  throw job.signal.reason
}

const scene = actor("scene", {
  methods: {
    run: () => "done",
    hold: held,
    fail: {
      retry: { max: 3, interval: 3600 },
      run: () => {
        throw new RangeError("out of luck")
      },
    },
  },
})

/** What does not end, under limits. */
const limited = actor("limited", {
  methods: {
    hourly: { rate: "1/h", run: () => "done" },
    everywhere: { limit: { rate: "1/h" }, run: () => "done" },
    single: { limit: { concurrency: 1 }, run: held },
    tenant: {
      limit: { concurrency: 1, key: ({ tenant }: { readonly tenant: string }) => tenant },
      run: held,
    },
  },
})

/** The second of two jobs, where the first has all that may be had. */
const second = async (newBoard: NewBoard, method: string, input?: unknown): Promise<Scene> => {
  const { client } = await start([limited], { transport: newBoard(), name: "w1" })
  const submit = () => client.submit(`limited.${method}`, input === undefined ? {} : { input })
  const first = await submit()
  await eventually(async () => ["started", "succeeded"].includes((await first.find()).state))
  return { client, job: await submit() }
}

const broken = (queue: string) =>
  actor("mail", {
    queue,
    restart: { max: 0 },
    start: () => {
      throw new Error("the mail server is away")
    },
    methods: { send: () => "sent" },
  })

/** What was brought about: a client, and the job that waits. */
interface Scene {
  readonly client: Client
  readonly job: SubmittedJob
}

const ANY_TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)

/** A worker with one handler, which is busy with a job that does not end. */
const busy = async (transport: string, prefetch: number) => {
  const { client } = await start([scene], { transport, name: "w1", concurrency: 1, prefetch })
  const held = await client.submit("scene.hold")
  await eventually(async () => (await held.find()).state === "started", { message: "the first one runs" })
  return { client, held }
}

const submitted = async (client: Client, ...given: Parameters<Client["submit"]>): Promise<Scene> => ({
  client,
  job: await client.submit(...given),
})

interface Row {
  readonly name: string
  /** The first cause. */
  readonly cause: Partial<Record<keyof Cause, unknown>>
  /** Codes of those that follow. */
  readonly then?: ReadonlyArray<string>
  readonly make: (newBoard: NewBoard) => Promise<Scene>
}

const table: ReadonlyArray<Row> = [
  {
    name: "no worker at all",
    cause: { code: "no-worker", queue: "default", message: expect.stringContaining("callboard worker -Q default") },
    make: async (newBoard) => submitted(await connect(newBoard()), "scene"),
  },
  {
    name: "no worker listens to the queue",
    cause: { code: "no-worker", queue: "far", message: expect.stringContaining("consumed queues: near") },
    make: async (newBoard) => {
      const { client } = await start([scene], { transport: newBoard(), queues: ["near"] })
      return submitted(client, "scene", { queue: "far" })
    },
  },
  {
    name: "nobody serves the actor",
    cause: {
      code: "unknown-actor",
      actor: "secne",
      until: ANY_TIME,
      message: expect.stringMatching(/no worker serves actor secne \(did you mean scene\?\)/),
    },
    make: async (newBoard) => {
      const { client } = await start([scene], { transport: newBoard() })
      return submitted(client, "secne.hold")
    },
  },
  {
    name: "it waits for another job",
    cause: {
      code: "waiting-for-jobs",
      jobs: 1,
      waiting: [{ id: expect.stringMatching(/./), state: "started" }],
      message: expect.stringMatching(/waiting for another job to succeed: \S+ \(started\)$/),
    },
    make: async (newBoard) => {
      const { client, held } = await busy(newBoard(), 1)
      return submitted(client, "scene", { after: held.id })
    },
  },
  {
    name: "it waits for a job that failed",
    cause: {
      code: "waiting-for-jobs",
      jobs: 2,
      waiting: [
        { id: expect.stringMatching(/./), state: "cancelled" },
        { id: expect.stringMatching(/./), state: "queued" },
      ],
      message: expect.stringMatching(
        /to succeed: \S+ \(cancelled\), \S+ \(queued\); \S+ will not succeed unless it runs again/,
      ),
    },
    then: ["no-worker"],
    make: async (newBoard) => {
      const client = await connect(newBoard())
      const [first, other] = [await client.submit("scene"), await client.submit("scene")]
      await first.cancel()
      return submitted(client, "scene", { after: [first.id, other.id] })
    },
  },
  {
    name: "the actor has no such method",
    cause: { code: "unknown-actor", message: expect.stringMatching(/no method hodl \(did you mean hold\?\)/) },
    make: async (newBoard) => {
      const { client } = await start([scene], { transport: newBoard() })
      return submitted(client, "scene.hodl", {}, { lenient: true })
    },
  },
  {
    name: "nobody serves it, nobody listens",
    cause: { code: "unknown-actor" },
    then: ["no-worker"],
    make: async (newBoard) => {
      const { client } = await start([scene], { transport: newBoard(), queues: ["near"] })
      return submitted(client, "ghost", { queue: "far" })
    },
  },
  {
    name: "who serves it does not listen to its queue",
    cause: {
      code: "actor-elsewhere",
      workers: ["w1"],
      message: expect.stringContaining("add-consumer default --workers w1"),
    },
    then: ["unknown-actor"],
    make: async (newBoard) => {
      const transport = newBoard()
      await start([scene], { transport, name: "w1", queues: ["stage"] })
      const { client } = await start([lamp], { transport, name: "w2", queues: ["default"] })
      return submitted(client, "scene")
    },
  },
  {
    name: "the queue is paused",
    cause: { code: "queue-paused", queue: "default", message: expect.stringContaining("callboard resume default") },
    make: async (newBoard) => {
      const { client } = await start([scene], { transport: newBoard() })
      await client.pause("default")
      return submitted(client, "scene")
    },
  },
  {
    name: "the worker is suspended",
    cause: { code: "workers-suspended", workers: ["w1"], message: expect.stringContaining("callboard unsuspend w1") },
    make: async (newBoard) => {
      const { client, worker } = await start([scene], { transport: newBoard(), name: "w1" })
      await client.suspend("w1")
      await eventually(() => worker?.describe().state === "suspended", { message: "the worker heard of it" })
      return submitted(client, "scene")
    },
  },
  {
    name: "others are before it",
    cause: { code: "behind", jobs: 3, queue: "default" },
    then: ["prefetch-full"],
    make: async (newBoard) => {
      const { client } = await busy(newBoard(), 1)
      await client.submit("scene.hold", { priority: 9 })
      await client.submit("scene.hold")
      await client.submit("scene.hold")
      await client.submit("scene.hold", { priority: 0 })
      const scheduled = await client.submit("scene.hold", { delay: 3600 })
      expect(scheduled.receipt.state).toBe("scheduled")
      return submitted(client, "scene")
    },
  },
  {
    name: "the workers have their hands full",
    cause: {
      code: "prefetch-full",
      workers: ["w1"],
      running: [{ id: expect.any(String), name: "scene.hold", worker: "w1", since: ANY_TIME }],
    },
    make: async (newBoard) => {
      const { client } = await busy(newBoard(), 1)
      await client.submit("scene.hold")
      return submitted(client, "scene", { priority: 9 })
    },
  },
  {
    name: "it is in a worker, whose handler is busy",
    cause: { code: "reserved", workers: ["w1"], running: [expect.objectContaining({ name: "scene.hold" })] },
    make: async (newBoard) => {
      const { client } = await busy(newBoard(), 4)
      return submitted(client, "scene")
    },
  },
  {
    name: "its time has not come",
    cause: { code: "scheduled", until: ANY_TIME },
    make: async (newBoard) => {
      const { client } = await start([scene], { transport: newBoard() })
      return submitted(client, "scene", { delay: 3600 })
    },
  },
  {
    name: "its time has not come, and nobody would run it then",
    cause: { code: "scheduled" },
    then: ["no-worker"],
    make: async (newBoard) => submitted(await connect(newBoard()), "scene", { delay: 3600 }),
  },
  {
    name: "an attempt failed and another follows",
    cause: {
      code: "retrying",
      attempt: 1,
      attempts: 4,
      until: ANY_TIME,
      message: expect.stringMatching(/^attempt 1 of 4 \(method scene\.fail\) failed with RangeError: out of luck/),
    },
    make: async (newBoard) => {
      const { client } = await start([scene], { transport: newBoard() })
      return submitted(client, "scene.fail")
    },
  },
  {
    name: "its actor is not healthy, and was asked",
    cause: {
      code: "actor-unhealthy",
      actor: "mail",
      workers: ["w1"],
      reason: expect.stringContaining("the mail server is away"),
      until: ANY_TIME,
    },
    make: async (newBoard) => {
      const { client } = await start([broken("default"), scene], { transport: newBoard(), name: "w1" })
      return submitted(client, "mail.send")
    },
  },
  {
    name: "its actor is not healthy, so that its queue is left alone",
    cause: { code: "actor-unhealthy", message: expect.stringContaining("the mail server is away") },
    make: async (newBoard) => {
      const { client } = await start([broken("mail"), scene], { transport: newBoard(), name: "w1" })
      return submitted(client, "mail.send")
    },
  },
  {
    name: "its method has had its turn for now, on this worker",
    cause: {
      code: "rate-limit",
      workers: ["w1"],
      until: ANY_TIME,
      message: expect.stringMatching(/^limited\.hourly is at its rate limit \(one every 3600 s on each worker\)/),
    },
    make: (newBoard) => second(newBoard, "hourly"),
  },
  {
    name: "its method has had its turn for now, everywhere",
    cause: { code: "rate-limit", reason: "one every 3600 s across all workers", until: ANY_TIME },
    make: (newBoard) => second(newBoard, "everywhere"),
  },
  {
    name: "as many run as may",
    cause: { code: "concurrency-limit", reason: "1 at a time across all workers", until: ANY_TIME },
    make: (newBoard) => second(newBoard, "single"),
  },
  {
    name: "its tenant has as many as it may",
    cause: { code: "tenant-limit", reason: '1 at a time across all workers for "acme"', until: ANY_TIME },
    make: (newBoard) => second(newBoard, "tenant", { tenant: "acme" }),
  },
  {
    name: "somebody has it who is no worker",
    cause: { code: "in-hand" },
    make: async (newBoard) => {
      const transport = newBoard()
      const client = await connect(transport)
      const job = await client.submit("scene")
      await eventually(
        async () => {
          const request = { queues: ["default"], max: 1, wait: 1_000 }
          return (await client.connection.jobs.take(request, new AbortController().signal)).length === 1
        },
        { message: "it is taken" },
      )
      await start([scene], { transport })
      return { client, job }
    },
  },
  {
    name: "it runs",
    cause: { code: "running", workers: ["w1"], attempt: 1, since: ANY_TIME },
    make: async (newBoard) => {
      const { client, held } = await busy(newBoard(), 1)
      return { client, job: held }
    },
  },
  {
    name: "it has ended",
    cause: { code: "ended", state: "cancelled", since: ANY_TIME, message: expect.stringContaining("callboard retry") },
    make: async (newBoard) => {
      const client = await connect(newBoard())
      const job = await client.submit("scene")
      await job.cancel()
      return { client, job }
    },
  },
  {
    name: "the transport is closed",
    cause: { code: "transport-down" },
    make: async (newBoard) => {
      const client = await connect(newBoard())
      const job = await client.submit("scene")
      await client.close()
      return { client, job }
    },
  },
]

/** Causes that a transport has a part in: what it keeps, counts, holds back or hands out. Runtime and texts are the same on all. */
const TRANSPORTS = new Set([
  "no worker at all",
  "it waits for another job",
  "the queue is paused",
  "others are before it",
  "its time has not come",
  "somebody has it who is no worker",
  "it runs",
  "the transport is closed",
])

onEveryBoard((newBoard, transport) => {
  test.each(table.filter(({ name }) => transport === "memory" || TRANSPORTS.has(name)))(
    "$name",
    async ({ cause, then = [], make }) => {
      const { client, job } = await make(newBoard)
      try {
        // What was brought about shows once the worker has got there.
        await eventually(async () => {
          const { id, causes } = await client.why(job.id)
          expect({ id, first: causes[0], then: causes.slice(1).map(({ code }) => code) }).toEqual({
            id: job.id,
            first: expect.objectContaining(cause),
            then,
          })
          return true
        })
      } finally {
        await client.close()
      }
    },
  )

  test("a thousand before it are counted, more are not", async () => {
    await using client = await connect(newBoard())
    await client.submitMany(Array.from({ length: 1_000 }, () => ({ task: "scene" })))
    const near = await client.submit("scene")
    const far = await client.submit("scene")
    const behind = async (id: string) => (await client.why(id)).causes.find(({ code }) => code === "behind")
    expect(await behind(near.id)).toMatchObject({ jobs: 1_000 })
    expect(await behind(near.id)).not.toHaveProperty("atLeast")
    expect(await behind(far.id)).toMatchObject({ jobs: 1_000, atLeast: true })
  })

  test("what nobody knows is not found; what is not kept is gone", async () => {
    const { client } = await start([scene], { transport: newBoard() })
    await expect(client.why("nobody")).rejects.toMatchObject({ code: "not-found" })
    const job = await client.submit("scene")
    await job.outcome({ timeout: 60 })
    await job.delete()
    await expect(client.why(job.id)).rejects.toMatchObject({ code: "gone" })
  })
})

describe("when its server is gone", () => {
  test("that is the cause, soon", async () => {
    const server = await startNats()
    const client = await connect(server.url)
    try {
      const job = await client.submit("scene")
      await server.stop()
      const began = performance.now()
      expect(await client.why(job.id)).toMatchObject({ id: job.id, causes: [{ code: "transport-down" }] })
      expect(performance.now() - began).toBeLessThan(5_000)
    } finally {
      await client.close()
      await server.stop()
    }
  })
})
