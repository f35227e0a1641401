/** The nats driver by itself: the messages that it sends, deliveries, and levels of tasks. */
import { connect as dial } from "nats"
import { describe, expect, test } from "vitest"
import { Names } from "../../../../plugins/nats/mod.ts"
import type { Driver } from "../../../../runtime/transport/driver.ts"
import { eventually } from "../../../support/servers/process.ts"
import {
  bytesOf,
  closing,
  commit,
  driversOnNats,
  indexOf,
  postingOf,
  publish,
  read,
  store,
  take,
  takeAll,
} from "./drivers.ts"

const nats = driversOnNats()
const { direct, open, wire, wired } = nats

/** Resolves when the server has answered all earlier requests. */
const roundTrip = (driver: Driver) => read(driver, "nothing", "record")

/** Subjects of this namespace to which the driver has published, in order. */
const subjectsSent = (): ReadonlyArray<string> =>
  [...wire.sent.matchAll(/H?PUB (\S+)/g)]
    .map(([, subject = ""]) => subject)
    .filter((subject) => !subject.startsWith("$JS.API"))

test("a job that succeeds at its first delivery is one publish, one record and one acknowledgement", async () => {
  const driver = await wired()
  const warm = postingOf()
  await publish(driver, warm)
  await store(driver, warm.id, "succeeded", "", { task: { kind: "ack", token: (await take(driver)).token } })
  await roundTrip(driver)
  wire.sent = ""
  const posting = postingOf()
  await publish(driver, posting)
  const delivery = await take(driver)
  expect(delivery.first).toBe(true)
  await store(driver, posting.id, "succeeded", "", { task: { kind: "ack", token: delivery.token }, keep: 60_000 })
  await roundTrip(driver)
  const [task, record, ack, ...more] = subjectsSent()
  expect(task).toBe(new Names(nats.namespace).task("j", "q", 4, posting.id, { task: "a" }))
  expect(record).toBe(`${nats.namespace}.t.${posting.id}`)
  expect(ack).toMatch(/^\$JS\.ACK\./)
  expect(more).toEqual([])
  expect([...wire.sent.matchAll(/\$JS\.API\.(?!CONSUMER\.MSG\.NEXT)\S+/g)].map(String)).toEqual([
    `$JS.API.DIRECT.GET.${nats.namespace}_state.${nats.namespace}.t.nothing`,
  ])
})

test("the acknowledgement of a job does not wait for what follows from others", async () => {
  const driver = await wired()
  const postings = [postingOf(), postingOf(), postingOf()]
  await publish(driver, ...postings)
  const deliveries = await takeAll(driver, 3)
  wire.sent = ""
  await driver.commit(
    deliveries.map(({ token }, at) => ({
      id: postings[at]?.id ?? "",
      record: { expect: "", bytes: bytesOf("x"), index: indexOf(at === 2 ? "failed" : "succeeded") },
      ...(at === 2 ? { post: [postingOf({ queue: "next" })] } : {}),
      task: { kind: "ack", token },
    })),
  )
  await roundTrip(driver)
  const subjects = subjectsSent()
  const acks = subjects.flatMap((subject, at) => (subject.startsWith("$JS.ACK") ? [at] : []))
  const posted = subjects.findIndex((subject) => subject.includes(".j.next."))
  expect(acks).toHaveLength(3)
  // The last acknowledgement is sent after the postings, since its reply confirms all of them.
  expect(acks[0]).toBeLessThan(posted)
  expect(acks[1]).toBeGreaterThan(posted)
})

describe("a delivery", () => {
  test("that another connection extends is known to the one that gives it back", async () => {
    const driver = await direct(1_000)
    const keeper = await direct(1_000)
    await publish(driver, postingOf(), postingOf())
    const [first, second] = await takeAll(driver, 2)
    if (first === undefined || second === undefined) throw new Error("two must come")
    const began = Date.now()
    await eventually(
      async () => {
        expect(await keeper.extend([first.token])).toEqual([true])
        return Date.now() > began + 1_300
      },
      { every: 300 },
    )
    const committed = await driver.commit([
      { id: "one", task: { kind: "hand-back", token: first.token, delay: 0 } },
      { id: "two", task: { kind: "ack", token: second.token } },
    ])
    expect(committed).toEqual([
      { status: "committed", revision: "" },
      { status: "committed", revision: "", gone: true },
    ])
    expect(await takeAll(driver, 2)).not.toEqual([])
    expect(await keeper.extend([first.token, "nonsense"])).toEqual([expect.any(Boolean), false])
  })

  test("that was ended acts on nothing any more", async () => {
    const driver = await direct()
    await publish(driver, postingOf())
    const first = await take(driver)
    const released = { id: "x", task: { kind: "hand-back" as const, token: first.token, delay: 0 } }
    expect(await commit(driver, released)).toEqual({ status: "committed", revision: "" })
    const second = await take(driver)
    expect(second.fence > first.fence).toBe(true)
    expect(second.first).toBe(false)
    expect(await commit(driver, released)).toMatchObject({ gone: true })
    expect(await commit(driver, { id: "x", task: { kind: "ack", token: first.token } })).toMatchObject({ gone: true })
    expect(await driver.extend([first.token, second.token])).toEqual([false, true])
    expect(await commit(driver, { id: "x", task: { kind: "ack", token: second.token } })).toEqual({
      status: "committed",
      revision: "",
    })
  })
})

test("a broadcast ends within a bound while the server is frozen", async () => {
  const driver = await wired()
  nats.proxy.freeze()
  const began = performance.now()
  await driver.broadcast?.send("news", bytesOf("one")).finally(() => nats.proxy.thaw())
  expect(performance.now() - began).toBeLessThan(4_000)
})

test("a task that another program publishes to a level that is no band is refused by the server", async () => {
  const driver = await direct()
  await using client = closing(await dial({ servers: nats.server.url }))
  const names = new Names(nats.namespace)
  const { frame } = postingOf()
  for (const kind of ["j", "s"] as const)
    await expect(client.jetstream().publish(names.task(kind, "q", 5, "a", { task: "a" }), frame)).rejects.toMatchObject(
      {
        code: "503",
      },
    )
  await client.jetstream().publish(names.task("j", "q", 4, "b", { task: "a" }), frame)
  expect((await take(driver)).level).toBe(4)
})

test.each([1, 2, 3, 4, 10])(
  "with %i bands a task of every priority, and one of the front, is seen to wait, and taken",
  async (bands) => {
    const driver = await open(`${nats.server.url}?bands=${bands}`)
    const postings = Array.from({ length: 11 }, (_, level) => ({ ...postingOf(), level }))
    const ids = new Set(postings.map(({ id }) => id))
    await publish(driver, ...postings)
    expect(new Set(await driver.waiting?.({ queue: "q" }, 100))).toEqual(ids)
    expect(await driver.queues?.()).toMatchObject([{ queue: "q", ready: 11, scheduled: 0, held: 0 }])
    const taken = new Set<number>()
    await eventually(async () => {
      for (const { sequence } of await takeAll(driver, 20, 1_000)) taken.add(sequence)
      return taken.size === 11
    })
  },
)

test("a task that another program publishes to a level between the bands is refused, as no worker would take it", async () => {
  const driver = await open(`${nats.server.url}?bands=3`)
  await publish(driver, postingOf())
  await using client = closing(await dial({ servers: nats.server.url }))
  const levels = await Promise.all(
    Array.from({ length: 11 }, async (_, level) => {
      const answer = await client
        .request(`${nats.namespace}.j.q.${level}.other-${level}`, "x", { timeout: 2_000 })
        .catch(() => undefined)
      return answer === undefined ? [] : [level]
    }),
  )
  expect(levels.flat()).toEqual([0, 4, 7, 10])
})
