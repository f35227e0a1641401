/** Boards and schedules of the client over HTTP, against a service on loopback: the same calls as over a transport. */
import { type CallboardError, connectHttp } from "callboard/client"
import { afterEach, expect, onTestFinished, test } from "vitest"
import { start, stopAll } from "../http/harness.ts"

afterEach(stopAll)

const serving = async () => {
  const running = await start()
  return { ...running, client: connectHttp(running.url) }
}

const refusal = (work: Promise<unknown>): Promise<Pick<CallboardError, "code" | "message">> =>
  work.then(
    (value) => expect.fail(`it came to ${JSON.stringify(value)}`),
    ({ code, message }: CallboardError) => ({ code, message }),
  )

test("a board: jobs are posted, iterated, claimed, extended, consumed, trashed and restored", async () => {
  const { client, service } = await serving()
  const board = client.board("builds")
  const book = { name: "b", uuid: "u" }
  const low = await board.post("low", { priority: "low" })
  const job = await board.post("compile", { details: { commit: "4f2a" }, priority: "HIGH", book })
  expect(job).toMatchObject({ name: "compile", priority: "HIGH", details: { commit: "4f2a" }, book, board: "builds" })
  expect(Math.abs(job.createdAt.getTime() - Date.now())).toBeLessThan(60_000)
  expect([await job.state(), await job.owner(), await job.expiresIn()]).toEqual(["UNCLAIMED", null, "NOT_CLAIMED"])
  const names = async (options = {}) => (await Array.fromAsync(board.iterate(options))).map(({ name }) => name)
  expect(await names()).toEqual(["compile", "low"])
  const claim = await board.take("me", { expiry: "30s", wait: "2s" })
  expect(claim).toMatchObject({ owner: "me", number: 1, job: { id: job.id }, view: { state: "CLAIMED", owner: "me" } })
  expect(await names({ onlyUnclaimed: true, fresh: true })).toEqual(["low"])
  expect(await board.findOwner(job)).toBe("me")
  expect(await claim.job.extendExpiry(null)).toBe(true)
  expect(await board.expiresIn(job.id)).toBe("DOES_NOT_EXPIRE")
  expect((await claim.consume()).story.map(({ step }) => step)).toEqual(["posted", "claimed", "consumed"])
  expect(await job.find()).toMatchObject({ state: "COMPLETE", owner: null })
  expect(await job.wait({ timeout: 0 })).toBe(true)
  expect(await board.count()).toBe(1)
  const again = await board.claim(low, "me")
  expect(again.job).toBe(low)
  expect(Number(await low.expiresIn())).toBeGreaterThan(50)
  await board.abandon(low, "me")
  await board.claim(low.id, "other")
  await board.trash(low.id, "other")
  expect((await board.trashed()).map(({ id }) => id)).toEqual([low.id])
  expect((await board.trashedJob(low.id)).name).toBe("low")
  expect((await board.restore(low.id)).sequence).toBe(low.sequence)
  const other = service.client.board("builds")
  await other.registerEntity({ kind: "conductor", name: "c", metadata: { pid: 1 } })
  expect(await board.entities("conductor")).toEqual([{ kind: "conductor", name: "c", metadata: { pid: 1 } }])
  expect(await board.entities("other")).toEqual([])
})

test("a claim that was made by a handle is given up only as that claim", async () => {
  const { client } = await serving()
  const board = client.board("builds")
  const job = await board.post("compile")
  const first = await board.claim(job, "me")
  await client.board("builds").abandon(job.id, "me")
  await client.board("builds").claim(job.id, "me")
  expect(await refusal(board.consume(job, "me"))).toMatchObject({ code: "not-owner" })
  expect(await refusal(first.consume())).toMatchObject({ code: "not-owner" })
  expect(await job.state()).toBe("CLAIMED")
})

test("what a board refuses is refused with the same code and message as over a transport", async () => {
  const { client, service } = await serving()
  const boards = [client.board("builds"), service.client.board("builds")] as const
  const [remote] = boards
  const { id } = await remote.post("compile")
  const taken = await remote.post("taken")
  await remote.claim(taken.id, "me")
  const same = async (ask: (board: (typeof boards)[number]) => Promise<unknown>, code: string) => {
    const [overHttp, direct] = await Promise.all(boards.map((board) => refusal(ask(board))))
    expect(overHttp).toEqual(direct)
    expect(overHttp?.code).toBe(code)
  }
  await same((board) => board.claim(taken.id, "other"), "unclaimable")
  await same((board) => board.consume(taken.id, "other"), "not-owner")
  await same((board) => board.consume(id, "me"), "not-found")
  await same((board) => board.find("nothing"), "not-found")
  await same((board) => board.restore(id), "not-found")
  await same((board) => board.claim(id, ""), "invalid-input")
  await same((board) => board.claim(id, "me", { expiry: 0 }), "invalid-input")
  await same((board) => board.claim(id, "me", { expiry: -1 }), "invalid-input")
  await same((board) => board.post("x", { priority: "urgent" }), "invalid-input")
  // What JavaScript lets a caller give.
  const loose = (
    board: (typeof boards)[number],
  ): Record<"claim" | "consume", (...given: Array<unknown>) => Promise<unknown>> => Object(board)
  await same((board) => loose(board).claim(id, 5), "invalid-input")
  await same((board) => loose(board).claim(id), "invalid-input")
  await same(async (board) => loose(board).consume(await board.job(id)), "invalid-input")
  await same((board) => loose(board).claim(id, "me", { expiry: true }), "invalid-input")
  for (const claim of ["1", 0, 1.5, 2 ** 60])
    await same((board) => board.consume(taken.id, "me", Object({ claim })), "invalid-input")
  await same((board) => board.list({ limit: 0 }), "invalid-input")
  await same((board) => board.post(""), "invalid-input")
  await same((board) => board.list({ after: "nowhere" }), "invalid-input")
  await same((board) => board.trashed({ after: "nowhere" }), "invalid-input")
  await same((board) => board.waitFor(id, { timeout: 0.1, multiplier: 0.5 }), "invalid-input")
  await same((board) => board.waitFor(id, { delay: -1 }), "invalid-input")
  await same((board) => board.waitFor(id, { maxDelay: -1 }), "invalid-input")
  expect(() => client.board("no/board")).toThrow("board")
  expect((await refusal(remote.claim(id, "me", { expiry: Number.NaN }))).code).toBe("invalid-input")
})

test("waits end when there is a job, when their time is over, and with their signal", async () => {
  const { client } = await serving()
  const board = client.board("builds")
  expect((await refusal(board.wait(0))).code).toBe("not-found")
  expect(await refusal(board.take("me", { wait: "50ms" }))).toEqual({
    code: "not-found",
    message: "no job of board builds can be claimed: waited 0.05 s",
  })
  const waiting = board.wait()
  const taking = board.take("me", { wait: "1 minute" })
  const job = await board.post("compile")
  expect((await Array.fromAsync(await waiting)).map(({ id }) => id)).toEqual([job.id])
  const claim = await taking
  expect(await job.wait({ timeout: 0.05 })).toBe(false)
  const ended = job.wait()
  await claim.consume()
  expect(await ended).toBe(true)
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const given = refusal(client.board("empty").take("me", { wait: "1 minute", signal: stop.signal }))
  const later = await board.post("later")
  const over = later.wait({ signal: stop.signal })
  stop.abort()
  expect(await over).toBe(false)
  expect(await given).toEqual({ code: "not-found", message: "the wait for a job of board empty was cancelled" })
})

test("lists of jobs and schedules refuse the same in code and over HTTP", async () => {
  const { service, ask, client: remote } = await serving()
  const { client } = service
  const limit = "limit: must be a whole number from 1 to 1000"
  for (const list of [
    client.jobs({ limit: 0 }),
    client.schedules.list({ limit: 0 }),
    client.board("b").list({ limit: 0 }),
  ])
    expect(await refusal(list)).toEqual({ code: "invalid-input", message: limit })
  for (const { schedules } of [client, remote])
    expect(await refusal(schedules.list(Object({ cursor: "a" })))).toEqual({
      code: "unknown-field",
      message: expect.stringContaining("cursor is not an option of schedules.list()"),
    })
  for (const path of ["/v1/jobs", "/v1/schedules", "/v1/boards/b/jobs"])
    expect((await ask("GET", `${path}?limit=0`)).body).toMatchObject({ code: "invalid-input", detail: limit })
  const states = JSON.parse('["nope"]')
  const unknown = await refusal(client.jobs({ states }))
  expect(unknown).toEqual({
    code: "invalid-input",
    message: expect.stringMatching(/^states: no such state; the states are deferred, /),
  })
  expect((await ask("GET", "/v1/jobs?state=nope")).body).toMatchObject({
    code: "invalid-input",
    detail: unknown.message.replace("states", "state"),
  })
  for (const list of [client.jobs({ after: "nope" }), client.retryAll({ after: "nope" })])
    expect(await refusal(list)).toEqual({
      code: "invalid-input",
      message: "after: does not belong to this list; omit it to start over",
    })
  expect((await ask("GET", "/v1/jobs?cursor=nope")).body).toMatchObject({
    code: "invalid-input",
    detail: "cursor: does not belong to this list; omit it to start over",
  })
})

test("pages of an iteration make one list", async () => {
  const { client } = await serving()
  const board = client.board("large")
  for (let n = 0; n < 105; n++) await board.post(`job-${n}`)
  const jobs = await Array.fromAsync(board.iterate())
  expect(jobs.map(({ name }) => name)).toEqual(Array.from({ length: 105 }, (_, n) => `job-${n}`))
  const page = await board.list({ limit: 100 })
  expect((await board.list({ ...(page.next && { after: page.next }) })).jobs).toHaveLength(5)
})

test("schedules: created, found, listed, changed, paused, resumed, run and deleted", async () => {
  const { client, service } = await serving()
  const { schedules } = client
  const fields = { cron: "0 7 * * mon", timeZone: "Europe/Berlin", task: "work.echo", input: { n: 1 } }
  const made = await schedules.create("weekly", fields)
  expect(made).toMatchObject({ name: "weekly", state: "active", fields })
  expect(await schedules.create("weekly", fields)).toEqual(made)
  const { id } = await schedules.run("weekly")
  expect(await client.job(id).result({ timeout: 60 })).toEqual({ n: 1 })
  expect((await schedules.find("weekly")).runs).toMatchObject([{ id, state: "succeeded" }])
  expect((await schedules.change("weekly", { cron: null, every: "1 hour" })).fields).toMatchObject({ every: "1 hour" })
  expect((await schedules.pause("weekly")).state).toBe("paused")
  expect((await schedules.resume("weekly")).state).toBe("active")
  await schedules.create("yearly", { cron: "@yearly", task: "work.echo" })
  const page = await schedules.list({ limit: 1 })
  expect(page).toMatchObject({ schedules: [{ name: "weekly" }], next: "weekly" })
  expect((await schedules.list({ after: "weekly" })).schedules.map(({ name }) => name)).toEqual(["yearly"])
  await schedules.delete("weekly")
  const direct = service.client.schedules
  for (const [ask, code] of [
    [(of: typeof schedules | typeof direct) => of.find("weekly"), "not-found"],
    [(of: typeof schedules | typeof direct) => of.run("weekly"), "not-found"],
    [(of: typeof schedules | typeof direct) => of.create("yearly", fields), "schedule-exists"],
    [(of: typeof schedules | typeof direct) => of.create("bad", { ...fields, cron: "0 0 31 2 *" }), "invalid-input"],
    [(of: typeof schedules | typeof direct) => of.create("bad", { ...fields, timeZone: "Moon/Sea" }), "invalid-input"],
    [(of: typeof schedules | typeof direct) => of.create("../x", fields), "invalid-input"],
    [(of: typeof schedules | typeof direct) => of.find(".."), "invalid-input"],
  ] as const) {
    const refused = await refusal(ask(schedules))
    expect(refused).toEqual(await refusal(ask(direct)))
    expect(refused.code).toBe(code)
  }
})
