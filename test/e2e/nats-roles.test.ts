/** The account file of the documentation on a real server: what each role may do, and how everything else is refused. */
import { type ActorDefinition, actor, type Client, connect, serve } from "callboard"
import { describe, expect, test } from "vitest"
import { encode, replyOf } from "../../runtime/cluster/remote-command.ts"
import { keep } from "../support/servers/keep.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { type Role, startSecured, urlFor } from "./nats-accounts.ts"

const secured = async () => {
  const server = await startSecured()
  const urlOf = (role: Role): string => urlFor(server, role)
  const clientOf = async (role: Role): Promise<Client> => keep(await connect(urlOf(role)))
  /** Lines of the server's log about requests of the role that it has refused. */
  const refusedTo = (role: Role) =>
    server.log.split("\n").filter((line) => line.includes(`/user:${role}" - `) && line.includes(" Violation - "))
  return { urlOf, clientOf, refusedTo }
}

/** Starts a server with the accounts, on which an operator has made the streams. */
const prepared = async () => {
  const board = await secured()
  const operator = await board.clientOf("operator")
  return { ...board, operator }
}

const tasks: ActorDefinition = actor("tasks", {
  methods: {
    double: ({ n }: { n: number }) => 2 * n,
    twice: { retry: { max: 2, backoff: { base: 0.01, max: 0.01 } }, run: (_: unknown, job) => tried(job.retries) },
    limited: { limit: { concurrency: 1 }, run: () => "limited" },
    waits: async (_: unknown, job) => {
      await new Promise((resolve) => job.signal.addEventListener("abort", resolve))
      throw job.signal.reason
    },
    approved: async (_: unknown, job) => {
      const by = await job.waitFor<string>("approved", { timeout: "1 hour" })
      await job.sleep("nap", 1.5)
      return [by, await job.call<number>("double", "tasks.double", { input: { n: 4 } })]
    },
  },
})

const tried = (retries: number): number => {
  if (retries === 0) throw new Error("once more")
  return retries
}

/** The error of a call that must be refused. Fails if the call succeeds. */
const refusal = async (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => expect.unreachable("it was allowed"),
    (error: unknown) => error,
  )

const missing = (subject: string) =>
  expect.objectContaining({
    reason: "unauthorized",
    outcome: "none",
    message: expect.stringContaining(`does not allow this user to publish to ${subject}`),
  })

describe("the roles of the account file", () => {
  test("the operator makes the streams; until then connections of the other roles fail and say so", {
    timeout: 60_000,
  }, async () => {
    const { urlOf, clientOf } = await secured()
    for (const role of ["submitter", "worker", "reader", "submitter"] as const) {
      expect(await refusal(connect(urlOf(role)))).toMatchObject({
        reason: "unauthorized",
        message: expect.stringMatching(
          /stream callboard_\w+ does not exist.*callboard doctor.*\$JS\.API\.STREAM\.CREATE\.callboard_/,
        ),
      })
    }
    await clientOf("operator")
    for (const role of ["submitter", "worker", "reader"] as const) await clientOf(role)
  })

  test("a worker runs what a submitter submits, and the submitter follows it", { timeout: 60_000 }, async () => {
    const { urlOf, clientOf, refusedTo } = await prepared()
    await start([tasks], { transport: urlOf("worker"), name: "worker-1" })
    const submitter = await clientOf("submitter")
    const job = await submitter.submit("tasks.double", { input: { n: 21 } })
    expect(await job.result({ timeout: 30 })).toBe(42)
    expect(await (await submitter.submit("tasks.twice", { delay: 1 })).result({ timeout: 30 })).toBe(1)
    expect(await (await submitter.submit("tasks.limited")).result({ timeout: 30 })).toBe("limited")
    const chained = await submitter.submit("tasks.double", { input: { n: 1 }, chain: [{ task: "tasks.limited" }] })
    expect(await chained.result({ timeout: 30 })).toBe(2)
    const approved = await submitter.submit("tasks.approved")
    await eventually(async () => (await approved.find()).waits !== undefined, { message: "it waits" })
    await (await clientOf("worker")).job(approved.id).signal("approved", "Ada")
    expect(await approved.result({ timeout: 30 })).toEqual(["Ada", 8])
    expect(await job.find()).toMatchObject({ state: "succeeded", attempts: 1 })
    expect((await submitter.jobs({ task: "tasks.double" })).jobs.map(({ id }) => id)).toContain(job.id)
    expect((await submitter.queues()).map(({ name }) => name)).toContain("default")
    expect(await submitter.workers()).toHaveLength(1)
    expect(await submitter.control("ping")).toEqual([{ worker: "worker-1", value: "pong" }])
    // No worker serves this queue. To say why the job waits, the submitter asks the workers.
    const other = await submitter.submit("tasks.double", { input: { n: 1 }, queue: "other" })
    await eventually(async () => (await submitter.why(other.id)).causes.some(({ code }) => code === "no-worker"), {
      message: "the cause is told",
    })
    expect(refusedTo("worker")).toEqual([])
    // Only workers may make consumers, and write the list of queues.
    const others = refusedTo("submitter").filter((line) => !/CONSUMER\.CREATE\.|k\.queue%2f\./.test(line))
    expect(others).toEqual([])
  })

  test("workers post to job boards and take from them; readers see that, and change nothing", {
    timeout: 60_000,
  }, async () => {
    const { clientOf, refusedTo } = await prepared()
    const [worker, reader] = [await clientOf("worker"), await clientOf("reader")]
    const [working, reading] = [worker.board("builds"), reader.board("builds")]
    const told: Array<string> = []
    for (const [name, board] of Object.entries({ reading, working }))
      await board.on("*", ({ event }) => told.push(`${name} ${event}`))
    const job = await working.post("compile")
    const trashed = await working.post("test", { priority: "LOW" })
    const claim = await working.take("worker-1")
    expect((await reading.find(job.id)).owner).toBe("worker-1")
    expect(await reading.count()).toBe(2)
    await claim.abandon()
    await (await working.claim(trashed.id, "worker-1")).trash()
    await working.restore(trashed.id)
    await working.registerEntity({ kind: "builder", name: "worker-1" })
    expect(await reading.entities()).toHaveLength(1)
    await (await working.take("worker-1")).consume()
    await eventually(() => told.length === 10, { message: "all is told to both" })
    expect(refusedTo("worker")).toEqual([])
    expect(refusedTo("reader")).toEqual([])
    for (const role of ["reader", "submitter"] as const) {
      expect(await refusal((await clientOf(role)).board("builds").post("compile"))).toMatchObject({
        message: expect.stringContaining("does not allow this user to publish to callboard.k.board%2f.builds%2f."),
      })
    }
  })

  test("a submitter takes no tasks, and neither stops nor changes anything", { timeout: 60_000 }, async () => {
    const { urlOf, clientOf, operator } = await prepared()
    const service = await start([tasks], { transport: urlOf("worker"), name: "worker-1" })
    const submitter = await clientOf("submitter")
    const runs = await submitter.submit("tasks.waits")
    await eventually(async () => (await runs.find())?.state === "started", { message: "it runs" })
    expect(await refusal(submitter.job(runs.id).signal("go"))).toEqual(
      missing("callboard.x.live.default.tasks%2ewaits.%."),
    )
    expect(await refusal(submitter.control("shutdown"))).toEqual(missing("callboard.news.control"))
    expect(await refusal(submitter.pause("default"))).toEqual(missing("callboard.k.pause%2f.default"))
    expect(await refusal(submitter.limitQueue("default", { maxInFlight: null }))).toEqual(
      missing("callboard.k.queue-limit%2f.default"),
    )
    expect(await refusal(submitter.suspend())).toEqual(missing("callboard.k.suspend%2f."))
    expect(await refusal(submitter.revoke({ header: "tenant", values: ["acme"] }))).toEqual(
      missing("callboard.k.revocation%2f"),
    )
    expect(await refusal(runs.cancel())).toEqual(missing("callboard.x.cancelled.default.tasks%2ewaits.%."))
    expect(
      await refusal(
        serve({ transport: urlOf("submitter"), actors: [tasks], signals: false, logLevel: "none" }).then((it) =>
          it.ready(),
        ),
      ),
    ).toEqual(missing("$JS.API.CONSUMER.CREATE.callboard_queue.default-"))
    // A submitter may send commands that only read, to the topic `inspect`. A command that changes workers is refused there.
    const heard: Array<unknown> = []
    await submitter.connection.broadcast.listen(
      "reply.x",
      (reply) => heard.push(replyOf(reply)),
      new AbortController().signal,
    )
    await submitter.connection.broadcast.send(
      "inspect",
      encode({ command: "shutdown", arguments: {}, reply: "reply.x" }),
    )
    await eventually(() => heard.length > 0, { message: "the worker answers" })
    expect(heard).toEqual([{ worker: "worker-1", error: "shutdown: not a command of the topic inspect" }])
    expect(service.worker).toBeDefined()
    expect(await submitter.control("ping")).toEqual([{ worker: "worker-1", value: "pong" }])
    await operator.job(runs.id).cancel()
  })

  test("a submitter is told why it cannot submit what waits for other jobs", { timeout: 60_000 }, async () => {
    const { clientOf } = await prepared()
    const submitter = await clientOf("submitter")
    const first = await submitter.submit("tasks.limited")
    expect(await refusal(submitter.submit("tasks.limited", { after: [first.id] }))).toMatchObject({
      code: "transport-unavailable",
      message: expect.stringContaining("does not allow this user to publish to callboard.k.after%2f."),
    })
  })

  test("a reader follows and lists jobs and asks workers, and changes nothing", { timeout: 60_000 }, async () => {
    const { urlOf, clientOf, operator } = await prepared()
    await start([tasks], { transport: urlOf("worker"), name: "worker-1" })
    const reader = await clientOf("reader")
    const job = await operator.submit("tasks.twice", { delay: 1 })
    const states: Array<string> = []
    for await (const event of reader.job(job.id).events()) if ("state" in event) states.push(String(event.state))
    expect(states).toContain("succeeded")
    expect(await reader.job(job.id).result({ timeout: 30 })).toBe(1)
    expect((await reader.jobs({ task: "tasks.twice" })).jobs.map(({ id }) => id)).toEqual([job.id])
    expect((await reader.queues()).map(({ name }) => name)).toContain("default")
    expect(await reader.control("ping")).toEqual([{ worker: "worker-1", value: "pong" }])
    const other = await operator.submit("tasks.limited", { queue: "other" })
    await eventually(async () => (await reader.why(other.id)).causes.some(({ code }) => code === "no-worker"), {
      message: "the cause is told",
    })
    expect(await refusal(reader.submit("tasks.limited"))).toMatchObject({
      message: expect.stringContaining("does not allow this user to publish to callboard.j.default."),
    })
    expect(await refusal(reader.control("shutdown"))).toEqual(missing("callboard.news.control"))
    expect(await refusal(reader.pause("default"))).toEqual(missing("callboard.k.pause%2f.default"))
    expect(await refusal(reader.limitQueue("default", { maxInFlight: null }))).toEqual(
      missing("callboard.k.queue-limit%2f.default"),
    )
    expect(await refusal(reader.job(other.id).cancel())).toEqual(
      missing("callboard.x.cancelled.other.tasks%2elimited.%."),
    )
  })

  test("a worker may not send commands that change other workers", { timeout: 60_000 }, async () => {
    const { urlOf, clientOf } = await prepared()
    await start([tasks], { transport: urlOf("worker"), name: "worker-1" })
    const worker = await clientOf("worker")
    expect(await worker.control("ping")).toEqual([{ worker: "worker-1", value: "pong" }])
    expect(await refusal(worker.control("shutdown"))).toEqual(missing("callboard.news.control"))
    expect(await refusal(worker.pause("default"))).toEqual(missing("callboard.k.pause%2f.default"))
    expect(await refusal(worker.limitQueue("default", { maxInFlight: null }))).toEqual(
      missing("callboard.k.queue-limit%2f.default"),
    )
    expect(await refusal(worker.suspend("worker-1"))).toEqual(missing("callboard.k.suspend%2f.worker-1"))
    expect(await refusal(worker.revoke({ header: "tenant", values: ["acme"] }))).toEqual(
      missing("callboard.k.revocation%2f"),
    )
  })

  test("an operator may do everything", { timeout: 60_000 }, async () => {
    const { urlOf, operator } = await prepared()
    const service = await start([tasks], { transport: urlOf("worker"), name: "worker-1" })
    const runs = await operator.submit("tasks.waits")
    await eventually(async () => (await runs.find())?.state === "started", { message: "it runs" })
    await runs.cancel()
    await eventually(async () => (await runs.find())?.state === "cancelled", { message: "it is cancelled" })
    await operator.pause("default")
    const paused = await operator.submit("tasks.double", { input: { n: 4 } })
    expect((await operator.why(paused.id)).causes).toContainEqual(expect.objectContaining({ code: "queue-paused" }))
    await operator.resume("default")
    expect(await paused.result({ timeout: 30 })).toBe(8)
    await operator.revoke({ header: "tenant", values: ["acme"] })
    expect(await operator.control("shutdown")).toEqual([{ worker: "worker-1", value: "stopping" }])
    await service.stopped
  })
})
