/** What is `undefined` in options is absent: so types without `exactOptionalPropertyTypes` have it. */
import { actor, connect, http } from "callboard"
import { forEachSeed, runActor, virtualClock } from "callboard/testing"
import { describe, expect, test } from "vitest"
import { Listeners } from "../../../../runtime/board/notifications.ts"
import { resolveConfig } from "../../../../runtime/config/resolving.ts"
import { SETTINGS } from "../../../../runtime/config/settings.ts"
import { generateId } from "../../../../runtime/id.ts"
import { SubmissionSchema } from "../../../../runtime/jobs/submission/submission.ts"
import { mergePatch } from "../../../../runtime/protocol/meta-patch.ts"
import { settingsOf } from "../../../../runtime/service/settings.ts"
import { keep } from "../../../support/servers/keep.ts"

/** Given without types, as code that passes options on gives them. */
const untyped = (value: Readonly<Record<string, unknown>>): object => value

const start = async () => keep(await connect(`memory://${generateId()}`))

describe("a field of a submission that is undefined is absent", () => {
  test.each(Object.keys(SubmissionSchema.fields).filter((field) => field !== "task"))("%s", async (field) => {
    const client = await start()
    const job = await client.submit("text.count", untyped({ [field]: undefined }))
    expect(await job.find()).toMatchObject({ state: "queued", queue: "default" })
    await client.submitMany([{ task: "text.count", ...untyped({ [field]: undefined }) }])
  })

  test.each<readonly [string, Readonly<Record<string, unknown>>]>([
    ["retry", { retry: { max: 1, on: undefined, backoff: { base: 1, max: undefined } } }],
    ["timeLimit", { timeLimit: { soft: undefined, hard: 5 } }],
    ["repeat", { repeat: { times: 1, interval: undefined } }],
    ["callbacks", { callbacks: [{ task: "a", id: undefined, delay: undefined, retry: { max: 1, on: undefined } }] }],
    ["errbacks in a chain", { chain: [{ task: "a", errbacks: [{ task: "b", queue: undefined }], chord: undefined }] }],
    ["chord", { chord: { tasks: [{ task: "a", delay: undefined }], group: undefined, allowFailure: undefined } }],
  ])("within %s", async (_field, fields) => {
    const client = await start()
    expect((await client.submit("text.count", untyped(fields))).receipt).toMatchObject({ id: expect.any(String) })
  })

  test("what the application gives is carried, and what is unknown is refused", async () => {
    const client = await start()
    const job = await client.submit(
      "text.count",
      untyped({ delay: undefined, input: { a: [undefined], b: undefined } }),
    )
    expect(await job.find()).toMatchObject({ input: { a: [null] } })
    await expect(client.submit("text.count", untyped({ dealy: 5, queue: undefined }))).rejects.toMatchObject({
      code: "unknown-field",
      details: { field: "dealy" },
    })
  })
})

test("so are those of a method, a job board and a revocation", async () => {
  const client = await start()
  const retry = untyped({ max: 1, on: undefined, backoff: { base: 1, factor: undefined } })
  expect(() => actor("a", { methods: { run: { run: () => 1, retry } } })).not.toThrow()
  await client.board("b").post("n", untyped({ details: undefined, priority: undefined, book: undefined }))
  expect(
    await client.revoke({ header: "h", values: ["v"], ...untyped({ ttl: undefined, terminate: undefined }) }),
  ).toMatchObject({
    terminate: false,
  })
})

describe("a setting that is undefined is as if absent", () => {
  /** Each of these names, `undefined`, in the place where the setting is. */
  const absent = (paths: ReadonlyArray<string>): Readonly<Record<string, unknown>> => {
    const given: Record<string, Record<string, undefined> | undefined> = {}
    for (const path of paths) {
      const [name = "", inner] = path.split(".")
      given[name] = inner === undefined ? undefined : { ...given[name], [inner]: undefined }
    }
    return given
  }
  const all = SETTINGS.map(({ path }) => path)
  const forClients = SETTINGS.filter((setting) => setting.for === "connect").map(({ path }) => path)
  const forServices = SETTINGS.filter((setting) => setting.for !== "command").map(({ path }) => path)

  test("in the configuration file", () => {
    const { config, entries } = resolveConfig({ file: { name: "callboard.config.ts", value: absent(all) } })
    expect(config).toEqual({})
    expect(entries.filter(({ origin }) => origin !== "default")).toEqual([])
  })

  test("of a client", async () => {
    const client = keep(await connect(`memory://${generateId()}`, untyped(absent([...forClients, "reconnectDelay"]))))
    await client.submit("text.count")
  })

  test("of a service and of a client that runs jobs itself", () => {
    const http = absent(["port", "host", "tokens", "origins", "page"])
    const own = absent(["actors", "signals", "log", "onFailure", "onSettled", "onReady"])
    const given = settingsOf(untyped({ ...absent(forServices), ...own, http }))
    expect(given).toEqual(settingsOf({ http: {} }))
  })

  test("of the HTTP application", async () => {
    const client = await start()
    const bounds = absent(["bodyBytes", "bodyTimeout", "streams", "streamsPerToken"])
    const app = http(client, {
      open: true,
      ...untyped({ ...absent(["tokens", "ready", "closing", "keepAlive", "log"]), bounds }),
    })
    const sent = { method: "POST", headers: { "content-type": "application/json" }, body: '{"task": "text.count"}' }
    expect((await app.request("/v1/jobs", sent)).status).toBe(202)
  })

  test("of a run in a test, of a virtual clock and of seeds", async () => {
    const text = actor("text", { methods: { run: () => 1 } })
    const options = absent(["actors", "concurrency", "timeout", "backoff", "clock"])
    const run = keep(await runActor(text, untyped(options)))
    expect(await run.call.run()).toBe(1)
    await run.drain(untyped({ timeout: undefined }))
    {
      using clock = virtualClock(untyped({ start: undefined, seed: undefined }))
      await clock.until(Promise.resolve(), untyped({ within: undefined }))
    }
    let seeds = 0
    await forEachSeed(untyped({ seeds: undefined, from: undefined }), async () => void seeds++)
    expect(seeds).toBe(100)
  })
})

test("a listener that is added twice is called twice, and a removal removes one", async () => {
  const listeners = new Listeners()
  const heard: Array<string> = []
  const listener = ({ event }: { readonly event: string }) => heard.push(event)
  const [remove] = [listeners.add("UNREADABLE", listener), listeners.add("UNREADABLE", listener)]
  const told = async (key: string) => {
    listeners.unreadable(key)
    await new Promise((resolve) => setImmediate(resolve))
    return heard.splice(0).length
  }
  expect(await told("one")).toBe(2)
  remove()
  remove()
  expect(await told("two")).toBe(1)
})

test("meta data after a change is a plain object", () => {
  const merged = mergePatch({ a: { b: 1 } }, { a: { c: 2 }, d: 1 })
  for (const each of [merged, merged["a"]]) expect(Object.getPrototypeOf(each)).toBe(Object.prototype)
  expect(Object.keys(mergePatch({}, JSON.parse('{"__proto__": 1}')))).toEqual(["__proto__"])
})
