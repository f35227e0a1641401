/** Acceptance scenarios of schedules and delayed jobs, on every transport. Each test of a scenario names its number. */
import { actor, type Client, connect, TransportError } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { jobIdOf, SCHEDULES, withWake } from "../../runtime/schedules/entry.ts"
import { type PlanTask, postDue } from "../../runtime/schedules/posting.ts"
import type { Jobs } from "../../runtime/transport/job-store/transport.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const WAIT = { timeout: 60 } as const

const makeActor = (ran: Array<string>, gate: Promise<void> = Promise.resolve()) =>
  actor("scene", {
    methods: {
      run: (_input: unknown, job) => void ran.push(job.id),
      waits: async (_input: unknown, job) => {
        ran.push(job.id)
        await gate
      },
    },
  })

const client = async (transport: string): Promise<Client> => {
  const made = await connect(transport)
  onTestFinished(() => made.close())
  return made
}

const secondsUntil = (iso: string | undefined): number => (Date.parse(iso ?? "") - Date.now()) / 1_000

/** Plans a task as the scheduler of a worker does. */
const planOf =
  (by: Client): PlanTask =>
  async (submission, id) => {
    const [posting] = (await by.prepare([{ ...submission }], { ids: [id] })).postings
    if (posting === undefined) throw new Error("there is no posting")
    return posting
  }

/** What a client holds, with another way to publish. */
const publishing = ({ connection }: Client, publish: (jobs: Jobs) => Jobs["publish"]) => ({
  ...connection,
  jobs: { ...connection.jobs, publish: publish(connection.jobs) },
})

/** Makes a schedule due: its entry says so, as if it had been made that long ago. */
const makeDue = async (by: Client, name: string, msAgo: number): Promise<number> => {
  const { store } = by.connection
  const due = (await store.now()) - msAgo
  await SCHEDULES.change(store, name, (found) =>
    found?.value === undefined ? "keep" : { value: withWake(name, { ...found.value, due }) },
  )
  return due
}

onEveryBoard((newBoard) => {
  // Where the transport keeps time, no scheduler is needed: what the scenario says about its absence is waived.
  test("S185 in 30 seconds: scheduled, due in 29 to 30 s, not in the queue", async () => {
    const board = await client(newBoard())
    const job = await board.submit("scene", { delay: 30 })
    expect(job.receipt.state).toBe("scheduled")
    const view = await job.find()
    expect(view.state).toBe("scheduled")
    expect(secondsUntil(view.times.due)).toBeGreaterThan(28)
    expect(secondsUntil(view.times.due)).toBeLessThanOrEqual(30)
    const [queue] = await board.queues()
    expect([queue?.depth ?? 0, queue?.scheduled ?? 1]).toEqual([0, 1])
  })

  test("S186 a burst worker runs what is overdue, a schedule's job too, and leaves what is due later", async () => {
    const transport = newBoard()
    const board = await client(transport)
    const ran: Array<string> = []
    const overdue = await board.submit("scene", { eta: new Date(Date.now() - 5_000).toISOString() })
    const later = await board.submit("scene", { delay: 600 })
    await board.schedules.create("past", { cron: "0 0 1 1 *", task: "scene" })
    await board.schedules.create("future", { cron: "0 0 1 1 *", task: "scene" })
    const due = await makeDue(board, "past", 5_000)
    const worker = await start([makeActor(ran)], { transport, burst: true })
    await worker.stopped
    expect(ran.toSorted()).toEqual([overdue.id, jobIdOf("past", due)].toSorted())
    expect((await later.find()).state).toBe("scheduled")
    expect((await board.schedules.find("future")).runs).toEqual([])
  })

  test("S188 a scheduled job that is cancelled never runs; the due time of an unknown id is not found", async () => {
    const ran: Array<string> = []
    const { client } = await start([makeActor(ran)], { transport: newBoard() })
    const job = await client.submit("scene", { delay: 1 })
    await job.cancel()
    expect((await client.jobs({ states: ["scheduled"] })).jobs).toEqual([])
    const after = await client.submit("scene", { delay: 1.5 })
    await after.result(WAIT)
    expect(ran).toEqual([after.id])
    expect((await job.find()).state).toBe("cancelled")
    await expect(client.job("nobody").find()).rejects.toMatchObject({ code: "not-found" })
    await expect(client.schedules.find("nobody")).rejects.toMatchObject({ code: "not-found" })
  })

  test("S190 an interval of 60 s is posted at once, once, and is due 60 s later; a cron text not before its time", async () => {
    const ran: Array<string> = []
    const transport = newBoard()
    const [{ client }] = await Promise.all([
      start([makeActor(ran)], { transport }),
      start([makeActor(ran)], { transport, name: `second-${generateId()}` }),
    ])
    const made = await client.schedules.create("minute", { every: 60, task: "scene" })
    const yearly = await client.schedules.create("yearly", { cron: "0 0 1 1 *", task: "scene" })
    expect(yearly).toMatchObject({ state: "active", runs: [] })
    expect(yearly.next).toBe(`${new Date().getUTCFullYear() + 1}-01-01T00:00:00.000Z`)
    await eventually(() => ran.length === 1, { message: "the interval is posted" })
    const view = await eventually(async () => {
      const found = await client.schedules.find("minute")
      return found.runs[0]?.state === "succeeded" ? found : undefined
    })
    expect(view.runs).toMatchObject([{ id: ran[0], due: made.next }])
    expect(Date.parse(view.next ?? "") - Date.parse(made.next ?? "")).toBe(60_000)
    expect(await client.schedules.find("yearly")).toMatchObject({ runs: [], missed: { count: 0 } })
    expect(ran).toHaveLength(1)
  })

  test("each due time is posted once, in time, by several workers", async () => {
    const ran: Array<string> = []
    const transport = newBoard()
    const workers = await Promise.all(
      [1, 2, 3].map((at) => start([makeActor(ran)], { transport, name: `w${at}-${generateId()}` })),
    )
    const board = workers[0]?.client ?? (await client(transport))
    await board.schedules.create("fast", { cron: "* * * * * *", task: "scene" })
    await eventually(() => ran.length >= 4, { message: "four due times are posted" })
    await board.schedules.pause("fast")
    const { runs, missed } = await board.schedules.find("fast")
    await Promise.all(runs.map(({ id }) => board.job(id).result(WAIT)))
    expect(new Set(ran).size).toBe(ran.length)
    expect(new Set(ran)).toEqual(new Set(runs.map(({ id }) => id)))
    // One entry, changed by compare-and-set: no worker writes down what another has posted.
    expect(new Set(runs.map(({ due }) => due)).size).toBe(runs.length)
    expect(missed.count).toBe(0)
    const late = runs.map(({ due, posted }) => Date.parse(posted) - Date.parse(due))
    expect(Math.max(...late)).toBeLessThan(2_000)
  })

  test("a scheduler whose entry another one has moved on, and an operator has paused, changes and publishes nothing", async () => {
    const board = await client(newBoard())
    await board.schedules.create("hourly", { every: "1 hour", task: "scene" })
    const published: Array<string> = []
    const connection = publishing(board, (jobs) => (postings) => {
      published.push(...postings.map(({ id }) => id))
      return jobs.publish(postings)
    })
    const now = await connection.store.now()
    const plan = planOf(board)
    const slow: PlanTask = async (...given) => {
      await postDue({ connection: board.connection, plan }, "hourly", now)
      await board.schedules.pause("hourly")
      return plan(...given)
    }
    expect(await postDue({ connection, plan: slow }, "hourly", now)).toBeGreaterThan(now)
    expect(published).toEqual([])
    const view = await board.schedules.find("hourly")
    expect([view.state, view.runs.length, view.runs[0]?.state]).toEqual(["paused", 1, "queued"])
  })

  test("a scheduler that dies before it publishes: another one publishes what it finds in the entry", async () => {
    const transport = newBoard()
    const board = await client(transport)
    await board.schedules.create("hourly", { every: "1 hour", task: "scene" })
    const dead = publishing(board, () => () => Promise.reject(new TransportError("closed", "it has died")))
    const parts = { connection: dead, plan: planOf(board) }
    await expect(postDue(parts, "hourly", await dead.store.now())).rejects.toThrow("it has died")
    const [run] = (await board.schedules.find("hourly")).runs
    expect(run).not.toHaveProperty("state")
    const ran: Array<string> = []
    await start([makeActor(ran)], { transport })
    await eventually(() => ran.length > 0, { message: "the job runs" })
    expect(ran).toEqual([run?.id])
  })

  test("a scheduler that dies after it has published: nothing is published again, however long ago that was", async () => {
    const transport = newBoard()
    const ran: Array<string> = []
    const { client: board } = await start([makeActor(ran)], { transport })
    await board.schedules.create("hourly", { cron: "0 0 1 1 *", task: "scene" })
    await makeDue(board, "hourly", 0)
    const { store } = board.connection
    const dead = publishing(board, (jobs) => async (postings) => {
      await jobs.publish(postings)
      throw new TransportError("closed", "it has died")
    })
    await postDue({ connection: dead, plan: planOf(board) }, "hourly", await store.now()).catch(() => undefined)
    await eventually(() => ran.length === 1, { message: "the job runs" })
    const published: Array<string> = []
    const later = publishing(board, (jobs) => (postings) => {
      published.push(...postings.map(({ id }) => id))
      return jobs.publish(postings)
    })
    // An hour later the transport does not know the publish key any more.
    await postDue({ connection: later, plan: planOf(board) }, "hourly", (await store.now()) + 3_600_000)
    expect(published).toEqual([])
    expect((await SCHEDULES.get(store, "hourly"))?.value).not.toHaveProperty("pending")
    expect(ran).toHaveLength(1)
  })

  test("overlap: skip misses what is due while the job before runs, queue posts it afterwards", async () => {
    const ran: Array<string> = []
    const gate = Promise.withResolvers<void>()
    const { client } = await start([makeActor(ran, gate.promise)], { transport: newBoard() })
    for (const overlap of ["skip", "queue", "allow"] as const)
      await client.schedules.create(overlap, { cron: "* * * * * *", overlap, task: "scene.waits" })
    const find = (name: string) => client.schedules.find(name)
    await eventually(async () => (await find("skip")).missed.count >= 2, { message: "two due times are missed" })
    await eventually(async () => (await find("queue")).waiting >= 2, { message: "two due times wait" })
    await eventually(async () => (await find("allow")).runs.length >= 3, { message: "three jobs run at a time" })
    expect((await find("skip")).runs).toHaveLength(1)
    expect((await find("queue")).runs).toHaveLength(1)
    expect((await find("skip")).missed.latest[0]).toMatchObject({ why: "overlap" })
    gate.resolve()
    await eventually(async () => (await find("queue")).runs.length >= 4, { message: "what waited is posted" })
    const { runs } = await find("queue")
    const dues = runs.map(({ due }) => due)
    expect(dues).toEqual(dues.toSorted().reverse())
  })

  test("catch-up: last posts the last of what was missed, all each of it, skip none", async () => {
    const transport = newBoard()
    const board = await client(transport)
    const ran: Array<string> = []
    for (const catchUp of ["skip", "last", "all"] as const) {
      await board.schedules.create(catchUp, { cron: "0 * * * *", catchUp, task: "scene" })
      await board.schedules.create(`${catchUp}-bound`, { cron: "0 * * * *", catchUp, most: 2, task: "scene" })
    }
    const hour = 3_600_000
    const now = await board.connection.store.now()
    const first = Math.floor(now / hour) * hour - 3 * hour
    for (const { name } of (await board.schedules.list()).schedules) await makeDue(board, name, now - first)
    await start([makeActor(ran)], { transport })
    // A minute after the hour the last due time is not late yet, where the test comes by at that time.
    const isLate = now % hour > 60_000
    await eventually(async () => {
      const counts = (await board.schedules.list()).schedules.map(({ name, runs, missed }) => [
        name,
        runs.length,
        missed.count,
      ])
      expect(Object.fromEntries(counts.map(([name, ...rest]) => [name, rest]))).toEqual({
        skip: isLate ? [0, 4] : [1, 3],
        "skip-bound": isLate ? [0, 4] : [1, 3],
        last: [1, 3],
        "last-bound": [1, 3],
        all: [4, 0],
        "all-bound": [2, 2],
      })
      return true
    })
  })

  test("change, pause, resume, run now, list and delete", async () => {
    const ran: Array<string> = []
    const { client } = await start([makeActor(ran)], { transport: newBoard() })
    const { schedules } = client
    const fields = { cron: "0 7 * * mon", timeZone: "Europe/Berlin", task: "scene", input: { n: 1 } }
    const made = await schedules.create("weekly", fields)
    expect(made).toMatchObject({ name: "weekly", state: "active", fields })
    expect(await schedules.create("weekly", { ...fields })).toEqual(made)
    await expect(schedules.create("weekly", { ...fields, priority: 3 })).rejects.toMatchObject({
      code: "schedule-exists",
    })

    const changed = await schedules.change("weekly", { every: 3_600, timeZone: null, priority: 9 })
    expect(changed.fields).toEqual({ every: 3_600, priority: 9, task: "scene", input: { n: 1 } })
    await eventually(() => ran.length === 1, { message: "the new interval begins" })
    const { next } = await schedules.find("weekly")
    expect(await schedules.change("weekly", { every: 3_600, priority: 8 })).toMatchObject({ next })
    expect((await schedules.pause("weekly")).state).toBe("paused")
    expect(await schedules.pause("weekly")).toMatchObject({ state: "paused" })
    expect(await schedules.find("weekly")).not.toHaveProperty("next")
    const { id } = await schedules.run("weekly")
    await client.job(id).result(WAIT)
    expect((await schedules.find("weekly")).runs.map((run) => run.id)).toContain(id)
    const resumed = await schedules.resume("weekly")
    expect(resumed.state).toBe("active")
    expect(secondsUntil(resumed.next)).toBeGreaterThan(3_500)

    await schedules.create("other", { every: 3_600, task: "scene" })
    const page = await schedules.list({ limit: 1 })
    expect([page.schedules.map(({ name }) => name), page.next]).toEqual([["other"], "other"])
    expect((await schedules.list({ limit: 1, after: "other" })).schedules.map(({ name }) => name)).toEqual(["weekly"])
    await schedules.delete("weekly")
    for (const call of ["find", "pause", "resume", "run", "delete"] as const)
      await expect(schedules[call]("weekly")).rejects.toMatchObject({
        code: "not-found",
        message: /no schedule weekly/,
      })
    await expect(schedules.change("weekly", {})).rejects.toMatchObject({ code: "not-found" })
  })

  test("one moment: posted once, then the schedule is over; delayed by jitter", async () => {
    const ran: Array<string> = []
    const { client } = await start([makeActor(ran)], { transport: newBoard() })
    const at = new Date(Date.now() + 1_000).toISOString()
    await client.schedules.create("once", { at, task: "scene", jitter: "500 ms" })
    await eventually(() => ran.length === 1, { message: "it is posted" })
    const view = await client.schedules.find("once")
    expect(view).toMatchObject({ state: "over", runs: [{ due: at }] })
    expect(view).not.toHaveProperty("next")
    const late = Date.parse(view.runs[0]?.posted ?? "") - Date.parse(at)
    expect(late).toBeGreaterThanOrEqual(0)
  })
})
