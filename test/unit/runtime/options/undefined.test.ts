/** What is `undefined` in options is absent: so types without `exactOptionalPropertyTypes` have it. */
import { actor, connect } from "callboard"
import { describe, expect, test } from "vitest"
import { Listeners } from "../../../../runtime/board/notifications.ts"
import { generateId } from "../../../../runtime/id.ts"
import { SubmissionSchema } from "../../../../runtime/jobs/submission/submission.ts"
import { mergePatch } from "../../../../runtime/protocol/meta-patch.ts"
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
