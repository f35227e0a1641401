/** What a board is given, and must either keep whole or refuse by its name. */
import { connect, fetchBoard } from "callboard"
import { expect, onTestFinished, test, vi } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { Faults, faultyPlugin } from "../../../support/faults.ts"
import { memory } from "../../../support/memory.ts"
import { eventually } from "../../../support/servers/process.ts"

const begin = async () => {
  const client = await connect(`memory://${generateId()}`)
  onTestFinished(() => client.close())
  return { client, board: client.board("builds") }
}

test.each([5, [1], null, undefined])("details that are written as %j are refused", async (written) => {
  const { board } = await begin()
  await expect(board.post("a", { details: { toJSON: () => written } })).rejects.toMatchObject({
    code: "invalid-input",
    details: { field: "details" },
  })
  expect(await board.count()).toBe(0)
})

test("details with a field that is called __proto__ are refused by name", async () => {
  const { board } = await begin()
  const details: Record<string, unknown> = JSON.parse('{"__proto__":{"a":1},"b":2}')
  await expect(board.post("job", { details })).rejects.toMatchObject({
    code: "invalid-input",
    message: expect.stringContaining("the key __proto__ is refused"),
  })
})

test.each([
  ["name", { kind: "a", name: "ü".repeat(255) }],
  ["name", { kind: "a", name: "\ud800" }],
  ["kind", { kind: "/".repeat(255), name: "a" }],
])("an entity whose %s makes no key is refused by that field", async (field, entity) => {
  const { board } = await begin()
  await expect(board.registerEntity(entity)).rejects.toMatchObject({ code: "invalid-input", details: { field } })
})

test("user and password of a URI arrive as they are", async () => {
  const urls: Array<URL> = []
  const own = {
    schemes: ["own"],
    connect: (url: URL, options: Parameters<typeof memory.connect>[1]) => {
      urls.push(url)
      return memory.connect(new URL(`memory://${generateId()}`), options)
    },
  }
  for (const source of [
    "own://a%25b:100%25%2541%40@h:1",
    { board: "own", host: "h", username: "a%b", password: "100%%41@" },
  ]) {
    const board = fetchBoard("builds", source, { transports: { own } })
    onTestFinished(() => board.close())
    await board.connect()
  }
  expect(urls).toHaveLength(2)
  for (const { username, password } of urls)
    expect([username, password].map(decodeURIComponent)).toEqual(["a%b", "100%%41@"])
})

test.each<[unknown, string]>([
  ["memory://q?foo=1", "invalid-input"],
  [{ board: "memory://q", foo: 1 }, "invalid-input"],
  ["memory://q?lease=soon", "invalid-input"],
  ["nats://127.0.0.1:1?timeout=1", "transport-unavailable"],
])(
  "a board whose transport refuses %j fails to connect with a code, as all that a board refuses",
  async (source, code) => {
    const board = fetchBoard("builds", JSON.parse(JSON.stringify(source)))
    await expect(board.connect()).rejects.toMatchObject({ _tag: "CallboardError", code })
    expect(board.connected).toBe(false)
  },
)

test.each([undefined, null, 5, {}])("a board of %j is refused", (source) => {
  expect(() => Reflect.apply(fetchBoard, undefined, ["builds", source])).toThrow(
    expect.objectContaining({ code: "invalid-input", details: { field: "board" } }),
  )
})

test.each(["x", "é".repeat(600)])("the trash is not listed after what is no id of a job", async (after) => {
  const { board } = await begin()
  await expect(board.trashed({ after })).rejects.toMatchObject({ code: "invalid-input", details: { field: "cursor" } })
})

test("a lease that is longer than a timer takes is not renewed all the time", async () => {
  const faults = new Faults()
  const client = await connect(`faulty://${generateId()}`, { transports: { faulty: faultyPlugin(faults) } })
  onTestFinished(() => client.close())
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] })
  const board = client.board("builds", { lease: "200 days" })
  await board.claim(await board.post("a"), "me")
  const writes = faults.calls.get("store.write")
  await vi.advanceTimersByTimeAsync(1_000)
  expect(faults.calls.get("store.write")).toBe(writes)
})

test("what an owner extends is not set back by a renewal that was under way", async () => {
  const faults = new Faults()
  const client = await connect(`faulty://${generateId()}`, { transports: { faulty: faultyPlugin(faults) } })
  onTestFinished(() => client.close())
  const board = client.board("builds", { lease: 4 })
  const job = await board.post("a")
  await board.claim(job, "me")
  const gate = Promise.withResolvers<void>()
  let writes = 0
  let answered = 0
  faults.before = async (call) => {
    if (call === "store.write" && ++writes === 1) await gate.promise
  }
  faults.after = (call) => {
    if (call === "store.write") answered++
  }
  await eventually(() => writes === 1, { message: "it is renewed" })
  expect(await job.extendExpiry(60)).toBe(true)
  const before = answered
  gate.resolve()
  await eventually(() => answered > before, { message: "the renewal is answered" })
  expect(await job.expiresIn()).toBeGreaterThan(50)
})

test("entries of the trash that cannot be read make no page short", async () => {
  const { client, board } = await begin()
  for (const name of ["a", "b"]) await (await board.claim(await board.post(name), "me")).trash()
  const value = new TextEncoder().encode("{garbage")
  const garbage = ["0", "1", "zz"].map((id) => ({ key: `board/builds/trash/${id}`, value }))
  await client.connection.store.write(garbage)
  const first = await board.trashed({ limit: 1 })
  expect(first.map(({ name }) => name)).toEqual(["a"])
  expect((await board.trashed({ limit: 1, after: first[0]?.id ?? "" })).map(({ name }) => name)).toEqual(["b"])
  expect(await board.trashed({ limit: 3 })).toHaveLength(2)
})

test("a bad limit is refused as every other input is", async () => {
  const { board } = await begin()
  for (const call of [() => board.list({ limit: 0 }), () => board.trashed({ limit: 1.5 })])
    await expect(Promise.resolve().then(() => call().catch(({ code }) => code))).resolves.toBe("invalid-input")
})
