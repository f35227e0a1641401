/** Acceptance scenarios of hooks, callbacks, failure handlers and webhooks, on every transport. Each test names its number. */
import { existsSync, readFileSync } from "node:fs"
import { actor, type Client } from "callboard"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { webhookActor } from "../../actors/webhook.ts"
import { generateId } from "../../runtime/id.ts"
import { eventually, freePort, isRunning, type TemporaryFolder, temporaryFolder } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { endpoint, statuses } from "../unit/actors/endpoint.ts"
import { onEveryBoard } from "./boards.ts"
import { apart, hooked } from "./hooked-actor.ts"

const WAIT = { timeout: 60 } as const

let folder: TemporaryFolder
beforeAll(() => {
  folder = temporaryFolder()
})
afterAll(() => folder.remove())

/** Where a job notes what runs, and what it has noted. */
const newLedger = () => {
  const path = `${folder.path}/${generateId()}`
  // A line that is being written is none yet.
  const lines = () => (existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [])
  return { meta: { ledger: path }, lines }
}

/** For a job whose notes the test does not read. */
const noting = () => ({ meta: newLedger().meta })

const expectUnknown = (client: Client, id: string) =>
  expect(client.job(id).find()).rejects.toMatchObject({ code: "not-found" })

/** A callback and an errback of `task`, and their ids. */
const bothOf = (task: string, inputs: { readonly success?: object; readonly failure?: object } = {}) => {
  const ids = { callback: `callback-${generateId()}`, errback: `errback-${generateId()}` }
  const followUp = (id: string, input: object = {}) => [{ task, id, immutable: true, input }]
  return {
    ...ids,
    fields: { callbacks: followUp(ids.callback, inputs.success), errbacks: followUp(ids.errback, inputs.failure) },
  }
}

onEveryBoard((newBoard, transport) => {
  describe.each([
    ["in the worker", hooked],
    ["in a process of its own", apart],
  ])("%s", (_where, actor) => {
    const isolated = actor === apart

    test("S156 callbacks and errbacks: only the fitting one runs, once, and finds the record of its parent", async () => {
      const { client } = await start([actor], { transport: newBoard() })
      const { meta } = newLedger()
      const onSuccess = bothOf(`${actor.name}.parent`)
      const works = await client.submit(`${actor.name}.works`, { meta, rootId: "root", ...onSuccess.fields })
      await works.result(WAIT)
      await eventually(() => client.job(onSuccess.callback).find(), { message: "the callback is submitted" })
      expect(await client.job(onSuccess.callback).result(WAIT)).toEqual({
        ...{ id: works.id, state: "succeeded", result: { answer: 42 } },
        ...{ parentId: works.id, rootId: "root" },
      })
      await expectUnknown(client, onSuccess.errback)

      const onFailure = bothOf(`${actor.name}.parent`)
      const fails = await client.submit(`${actor.name}.fails`, { meta, ...onFailure.fields })
      await fails.outcome(WAIT)
      await eventually(() => client.job(onFailure.errback).find(), { message: "the errback is submitted" })
      expect(await client.job(onFailure.errback).result(WAIT)).toEqual({
        ...{ id: fails.id, state: "failed", error: "no such thing" },
        ...{ parentId: fails.id, rootId: fails.id },
      })
      await expectUnknown(client, onFailure.callback)
    })

    // What follows no transport can change.
    if (transport !== "memory") return

    test("S156 success and failure hooks: only the fitting one runs, once, and sees the state", async () => {
      const { client } = await start([actor], { transport: newBoard() })
      const worked = newLedger()
      const works = await client.submit(`${actor.name}.works`, { meta: worked.meta })
      expect(await works.outcome(WAIT)).toEqual({ state: "succeeded", result: { answer: 42 } })
      expect(worked.lines()).toEqual(["run started", 'onSuccess {"answer":42} succeeded'])

      const failed = newLedger()
      const fails = await client.submit(`${actor.name}.fails`, { meta: failed.meta })
      expect(await fails.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "TypeError" } })
      expect(failed.lines()).toEqual(["run started", "onFailure TypeError failed"])
    })

    test("S157 a success hook that fails: the job is failed with its error, which onFailure gets, once", async () => {
      const { client } = await start([actor], { transport: newBoard() })
      const { meta, lines } = newLedger()
      const followUps = bothOf(`${actor.name}.parent`)
      const job = await client.submit(`${actor.name}.successFails`, { meta, ...followUps.fields })
      expect(await job.outcome(WAIT)).toMatchObject({
        state: "failed",
        error: { name: "RangeError", message: "the hook failed", reason: "handler" },
      })
      expect(lines()).toEqual(["run started", "onFailure RangeError failed"])
      await eventually(() => client.job(followUps.errback).find(), { message: "the errback is submitted" })
      await expectUnknown(client, followUps.callback)
    })

    // A handler that heeds its signal, and, where that can be ended at once, one that does not.
    test.each(isolated ? ["endless", "spins"] : ["endless"])("S170 stop one job: %s", async (method) => {
      const terminate = method === "spins"
      const failures: Array<string> = []
      const service = await start([actor], {
        transport: newBoard(),
        onFailure: [({ job }) => failures.push(job.id)],
      })
      const { client } = service
      const { meta, lines } = newLedger()
      const { fields, errback, callback } = bothOf(`${actor.name}.parent`)
      const job = await client.submit(`${actor.name}.${method}`, { meta, retry: { max: 3 }, ...fields })
      await eventually(async () => (await job.find()).state === "started", { message: "it is told to run" })
      await eventually(() => lines().length > 0, { message: "the handler begins" })
      const pid = Number(lines()[0]?.split(" ")[1])
      expect(pid === process.pid).toBe(!isolated)
      const stopped = performance.now()
      await job.cancel({ terminate })
      await eventually(() => service.worker?.describe().running.length === 0, { message: "the worker is idle" })
      expect(performance.now() - stopped).toBeLessThan(10_000)
      const view = await job.find()
      expect(view).toMatchObject({ state: "cancelled", attempts: 1, retries: 0 })
      expect(view.transitions.at(-1)).toMatchObject({ state: "cancelled", reason: "stopped" })
      expect(await job.outcome(WAIT)).toEqual({ state: "cancelled" })
      if (terminate) await eventually(() => !isRunning(pid), { message: "the process ends" })
      await expectUnknown(client, errback)
      await expectUnknown(client, callback)
      const next = await client.submit(`${actor.name}.works`, noting())
      expect(await next.result(WAIT)).toEqual({ answer: 42 })
      expect(failures).toEqual([])
      expect(lines()).toEqual([`run ${pid} started`, `onStopped ${process.pid} cancelled`])
    })
  })

  if (transport !== "memory") return

  test("S164 a failure hook that fails: the recorded error is its own, and the worker goes on", async () => {
    const { client } = await start([apart], { transport: newBoard(), concurrency: 1 })
    const job = await client.submit("apart.failureFails", noting())
    expect(await job.outcome(WAIT)).toMatchObject({
      state: "failed",
      error: { name: "RangeError", message: "the hook failed", traceback: expect.stringContaining("hooked-actor.ts") },
    })
    expect(await (await client.submit("apart.works", noting())).result(WAIT)).toEqual({ answer: 42 })
  })

  // An errback is a job of its own, and the error that it records is its own.
  test("errbacks that are too large together do not keep a failure from being recorded", async () => {
    let ran = 0
    const wordy = actor("wordy", {
      methods: {
        run: () => {
          ran++
          throw new Error("x".repeat(4_000))
        },
        hears: () => undefined,
      },
    })
    const { client } = await start([wordy], { transport: newBoard({ lease: 1 }) })
    const job = await client.submit("wordy", { errbacks: Array.from({ length: 300 }, () => ({ task: "wordy.hears" })) })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "handler" } })
    expect(ran).toBe(1)
    const { dead } = await job.find()
    const errbacks = await client.jobs({ parentId: job.id, limit: 1 })
    // Where the transport can take them they are submitted, and else it is said that they were not.
    expect(dead ?? (errbacks.jobs.length > 0 ? "submitted" : "dropped")).toMatch(/^(errbacks-refused|submitted)$/)
  })

  test("S164 an errback that fails: its job is failed with its error, and the worker goes on", async () => {
    const { client } = await start([apart], { transport: newBoard(), concurrency: 1 })
    const errback = `errback-${generateId()}`
    const job = await client.submit("apart.fails", {
      ...noting(),
      errbacks: [{ task: "apart.failureFails", id: errback }],
    })
    expect(await job.outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "TypeError" } })
    await eventually(() => client.job(errback).find(), { message: "the errback is submitted" })
    expect(await client.job(errback).outcome(WAIT)).toMatchObject({ state: "failed", error: { name: "RangeError" } })
    expect(await job.outcome()).toMatchObject({ state: "failed", error: { name: "TypeError" } })
    expect(await (await client.submit("apart.works", noting())).result(WAIT)).toEqual({ answer: 42 })
  })

  test("S160 error handlers run in order; one that returns false ends the chain, nothing or true does not", async () => {
    const calls: Array<string> = []
    const { client } = await start([hooked], {
      transport: newBoard(),
      onFailure: [
        () => void calls.push("h1"),
        async () => {
          calls.push("h2")
          return true
        },
        () => {
          calls.push("stop")
          return false
        },
        () => void calls.push("h3"),
      ],
    })
    await (await client.submit("hooked.fails", noting())).outcome(WAIT)
    await eventually(() => calls.includes("stop"), { message: "the handlers run" })
    // The chain of a later failure has come as far: an h3 of the first one would have been there.
    await (await client.submit("hooked.fails", noting())).outcome(WAIT)
    await eventually(() => calls.filter((call) => call === "stop").length === 2, { message: "they run again" })
    expect(calls).toEqual(["h1", "h2", "stop", "h1", "h2", "stop"])
  })

  describe("S162 webhooks", () => {
    const flaky = actor("flaky", {
      methods: {
        run: (_input: unknown, job) => {
          if (job.retries === 0) throw new Error("not the first time")
          return job.retries
        },
      },
    })

    const startWithWebhooks = (transport: string) =>
      start([hooked, flaky, webhookActor({ secrets: {}, allow: ["127.0.0.0/8"] })], { transport })

    /** Two webhooks: finished by GET, failed by POST. */
    const hooksTo = (url: string) =>
      bothOf("webhook.notify", { success: { url, method: "GET" }, failure: { url, method: "POST" } })

    test("S162 a success: one GET, no POST", async () => {
      await using hook = await endpoint(statuses(204))
      const { client } = await startWithWebhooks(newBoard())
      const webhooks = hooksTo(hook.url)
      const job = await client.submit("hooked.works", { ...noting(), ...webhooks.fields })
      await job.result(WAIT)
      await eventually(() => client.job(webhooks.callback).find(), { message: "the webhook is submitted" })
      expect(await client.job(webhooks.callback).result(WAIT)).toMatchObject({ status: 204 })
      await expectUnknown(client, webhooks.errback)
      expect(hook.received.map(({ method, body }) => [method, body])).toEqual([["GET", ""]])
    })

    test("S162 a failure: one POST that says how it came", async () => {
      await using hook = await endpoint(statuses(204))
      const { client } = await startWithWebhooks(newBoard())
      const webhooks = hooksTo(hook.url)
      const job = await client.submit("hooked.fails", { ...noting(), ...webhooks.fields })
      await job.outcome(WAIT)
      await eventually(() => client.job(webhooks.errback).find(), { message: "the webhook is submitted" })
      expect(await client.job(webhooks.errback).result(WAIT)).toMatchObject({ status: 204 })
      await expectUnknown(client, webhooks.callback)
      expect(hook.received.map(({ method }) => method)).toEqual(["POST"])
      const { times } = await job.find()
      expect(JSON.parse(hook.received[0]?.body ?? "")).toEqual({
        job_id: job.id,
        func_name: "hooked.fails",
        status: "failed",
        enqueued_at: times.submitted,
        ended_at: times.ended,
        exc_info: expect.stringContaining("no such thing"),
      })
    })

    test.each(["an answer of 500", "no server"])("S162 %s: the job stays as it was", async (trouble) => {
      await using hook = await endpoint(statuses(500))
      const { client } = await startWithWebhooks(newBoard())
      const url = trouble === "no server" ? `http://127.0.0.1:${await freePort()}/` : hook.url
      for (const [method, state] of [
        ["works", "succeeded"],
        ["fails", "failed"],
      ] as const) {
        const webhooks = hooksTo(url)
        const job = await client.submit(`hooked.${method}`, { ...noting(), ...webhooks.fields })
        await job.outcome(WAIT)
        const before = await job.find()
        const webhook = client.job(state === "succeeded" ? webhooks.callback : webhooks.errback)
        await eventually(async () => (await webhook.find()).state === "scheduled", { message: "it is tried again" })
        expect(before.state).toBe(state)
        expect(await job.find()).toEqual(before)
        await webhook.cancel()
      }
    })

    test("S162 not for an attempt that is retried", async () => {
      await using hook = await endpoint(statuses(204))
      const { client } = await startWithWebhooks(newBoard())
      const webhooks = hooksTo(hook.url)
      const job = await client.submit("flaky", { retry: { max: 1, interval: 0 }, ...webhooks.fields })
      expect(await job.result(WAIT)).toBe(1)
      await eventually(() => client.job(webhooks.callback).find(), { message: "the webhook is submitted" })
      await client.job(webhooks.callback).result(WAIT)
      await expectUnknown(client, webhooks.errback)
      expect(hook.received.map(({ method }) => method)).toEqual(["GET"])
    })

    test("S162 not for a stopped job", async () => {
      await using hook = await endpoint(statuses(204))
      const service = await startWithWebhooks(newBoard())
      const { client } = service
      const webhooks = hooksTo(hook.url)
      const job = await client.submit("hooked.endless", { ...noting(), ...webhooks.fields })
      await eventually(async () => (await job.find()).state === "started", { message: "it runs" })
      await job.cancel()
      await eventually(() => service.worker?.describe().running.length === 0, { message: "the worker is idle" })
      // A webhook that was due would have come before this one.
      const other = hooksTo(hook.url)
      await (await client.submit("hooked.works", { ...noting(), ...other.fields })).result(WAIT)
      await eventually(() => hook.received.length > 0, { message: "the other's webhook arrives" })
      await expectUnknown(client, webhooks.callback)
      await expectUnknown(client, webhooks.errback)
      expect(hook.received).toHaveLength(1)
    })
  })
})
