/** Transports that fail in the middle of a submission or a release: nothing is lost, nothing runs twice, nothing blocks the rest. */
import { describe, expect, test } from "vitest"
import { Client } from "../../../../../runtime/client/client.ts"
import type { Connection } from "../../../../../runtime/connection/connection.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { release } from "../../../../../runtime/jobs/dependencies/release.ts"
import { Sweep } from "../../../../../runtime/jobs/dependencies/sweep.ts"
import type { Decision, DecisionAnswer } from "../../../../../runtime/transport/job-store/transport.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { failing, openBench, unavailable } from "./bench.ts"

/** What a submission or a release asks of a transport. */
const CALLS = ["store.list", "store.write", "jobs.find", "jobs.decide"]

/** A board that answers some changes itself. */
const answering = (
  connection: Connection,
  answer: (change: Decision) => DecisionAnswer | undefined | Promise<DecisionAnswer | undefined>,
): Connection => ({
  ...connection,
  jobs: {
    ...connection.jobs,
    decide: async (changes) => {
      const own = await Promise.all(changes.map(answer))
      const rest = await connection.jobs.decide(changes.filter((_, at) => own[at] === undefined))
      let next = 0
      return own.map((each) => each ?? rest[next++] ?? { status: "conflict" })
    },
  },
})

/** A transport that stores record and tasks of a change one after the other, where the process dies in between. */
const withoutPosting = (connection: Connection): Connection =>
  answering(connection, async ({ post, ...change }) => {
    if (post === undefined || post.length === 0) return undefined
    const [changed] = await connection.jobs.decide([change])
    return changed?.status === "decided" ? { status: "failed", error: unavailable("unknown") } : changed
  })

const lookAt = (connection: Connection): Promise<unknown> => new Sweep(connection).look(Date.now())

// The faults are injected between runtime and transport, so that no transport can change what comes of them.
describe("on memory", () => {
  const setUp = () => openBench(`memory://${generateId()}?lease=30`)

  describe("a release", () => {
    test.each(CALLS)("that fails at any %s goes on at the next look, and starts nothing twice", async (call) => {
      await using bench = await setUp()
      for (let nth = 1, hasStruck = true; hasStruck; nth++) {
        const parent = await bench.submit("parent")
        const child = await bench.submit("child", { after: parent.id })
        const lenient = await bench.submit("lenient", { after: { ids: parent.id, allowFailure: true } })
        await bench.end("succeeded")
        const fault = failing(call, nth)
        bench.faults.before = fault.strike
        const done = release(bench.faulty, new Map([[parent.id, "succeeded"]]))
        if (nth === 1) await expect(done).rejects.toBeInstanceOf(TransportError)
        else await done.catch(() => undefined)
        bench.faults.before = () => undefined
        await bench.look()
        expect([await bench.stateOf(child), await bench.stateOf(lenient)]).toEqual(["queued", "queued"])
        expect(await bench.edges()).toEqual([])
        await bench.end("succeeded")
        await bench.end("succeeded")
        expect(await bench.connection.jobs.waiting?.({ queue: "default" }, 10)).toEqual([])
        hasStruck = fault.hasStruck
      }
    })

    test.each(CALLS)("whose %s is done, and not confirmed, is one release", async (call) => {
      await using bench = await setUp()
      for (let nth = 1, hasStruck = true; hasStruck; nth++) {
        const parent = await bench.submit("parent")
        const child = await bench.submit("child", { after: parent.id })
        await bench.end("succeeded")
        const fault = failing(call, nth, () => unavailable("unknown"))
        bench.faults.after = fault.strike
        await release(bench.faulty, new Map([[parent.id, "succeeded"]])).catch(() => undefined)
        bench.faults.after = () => undefined
        await bench.look()
        expect(await bench.edges()).toEqual([])
        expect(await bench.connection.jobs.waiting?.({ queue: "default" }, 10)).toEqual([child.id])
        await bench.end("succeeded")
        hasStruck = fault.hasStruck
      }
    })

    test("that can never be is the end of that job alone: it fails, with the reason, and may be tried again", async () => {
      await using bench = await setUp()
      const parent = await bench.submit("parent")
      const told = `told-${generateId()}`
      const errbacks = [{ task: "step.run", id: told, immutable: true, input: { name: "told" } }]
      const odd = await bench.submit("a-odd", { after: parent.id, errbacks })
      const child = await bench.submit("b-child", { after: parent.id })
      await bench.end("succeeded")
      const refusing = answering(bench.connection, ({ id, record }) =>
        id === odd.id && record.state === "queued"
          ? { status: "failed", error: new TransportError("invalid", "9999-12-31 is no time") }
          : undefined,
      )
      await lookAt(refusing)
      expect(await bench.stateOf(child)).toBe("queued")
      expect(await bench.record(odd)).toMatchObject({
        state: "failed",
        dead: "not-released",
        error: { name: "NotReleased", reason: "not-released", message: expect.stringContaining("9999-12-31") },
      })
      expect(await bench.edges()).toEqual([])
      expect(await bench.connection.jobs.waiting?.({ queue: "default" }, 10)).toEqual(
        expect.arrayContaining([child.id, told]),
      )
      expect(await odd.retry()).toMatchObject({ state: "queued", run: 2 })
    })

    test("of a job whose record cannot hold its failure either ends with what fits", async () => {
      await using bench = await setUp()
      const parent = await bench.submit("parent")
      const odd = await bench.submit("odd", { after: parent.id, meta: { long: "text" } })
      await bench.end("succeeded")
      const narrow = answering(bench.connection, ({ id, record }) =>
        id === odd.id && record.message !== undefined
          ? { status: "failed", error: new TransportError("too-large", "the record is too large") }
          : undefined,
      )
      await lookAt(narrow)
      const { message, error, ...record } = await bench.record(odd)
      expect(record).toMatchObject({ state: "failed", dead: "not-released" })
      expect([message, error?.reason]).toEqual([undefined, "not-released"])
      expect(await bench.edges()).toEqual([])
    })

    test("that a transport refuses for a reason of its own does not keep others waiting, and is tried again", async () => {
      await using bench = await setUp()
      const parent = await bench.submit("parent")
      const [odd, child] = [
        await bench.submit("a-odd", { after: parent.id }),
        await bench.submit("b-child", { after: parent.id }),
      ]
      await bench.end("succeeded")
      let isBroken = true
      const broken = answering(bench.connection, ({ id }) =>
        isBroken && id === odd.id
          ? { status: "failed", error: new TransportError("internal", "a fault of the plugin") }
          : undefined,
      )
      const sweep = new Sweep(broken)
      await expect(sweep.look(Date.now())).rejects.toMatchObject({ reason: "internal" })
      expect([await bench.stateOf(odd), await bench.stateOf(child)]).toEqual(["deferred", "queued"])
      isBroken = false
      await sweep.look(Date.now())
      expect(await bench.stateOf(odd)).toBe("queued")
      expect(await bench.edges()).toEqual([])
    })

    test("of many that one always fails does not keep the sweep from going on", async () => {
      await using bench = await setUp()
      const parent = await bench.submit("parent")
      const ids = Array.from({ length: 450 }, () => generateId())
      await bench.client.submitMany(ids.map((id) => ({ task: "step.run", id, input: {}, after: parent.id })))
      await bench.end("succeeded")
      const odd = [...ids].sort()[0]
      const broken = answering(bench.connection, ({ id }) =>
        id === odd ? { status: "failed", error: new TransportError("internal", "a fault of the plugin") } : undefined,
      )
      const sweep = new Sweep(broken)
      for (let look = 0; look < 3; look++) await sweep.look(Date.now()).catch(() => undefined)
      expect((await bench.edges()).map(({ child }) => child)).toEqual([odd])
    })
  })

  describe("where record and task are stored one after the other", () => {
    test("the errbacks of a job that can never start are posted at the next look, once", async () => {
      await using bench = await setUp()
      const parent = await bench.submit("parent")
      const told = `told-${generateId()}`
      const errbacks = [{ task: "step.run", id: told, immutable: true, input: { name: "told" } }]
      const child = await bench.submit("child", { after: parent.id, errbacks })
      await bench.end("failed", { keepMs: 0 })
      await expect(lookAt(withoutPosting(bench.connection))).rejects.toMatchObject({ reason: "unavailable" })
      expect(await bench.stateOf(child)).toBe("failed")
      expect(await bench.connection.jobs.waiting?.({ queue: "default" }, 10)).toEqual([])
      await bench.look()
      await bench.look()
      expect(await bench.connection.jobs.waiting?.({ queue: "default" }, 10)).toEqual([told])
      expect(await bench.edges()).toEqual([])
    })
  })

  describe("a submission", () => {
    test.each(["store.write", "jobs.find", "jobs.decide"])(
      "that fails at any %s can be repeated with its id, and is one job",
      async (call) => {
        await using bench = await setUp()
        const client = new Client(bench.faulty)
        for (let nth = 1, hasStruck = true; hasStruck; nth++) {
          const parent = await bench.submit("parent")
          await bench.end("succeeded")
          const id = `child-${generateId()}`
          const submit = () => client.submit("step.run", { id, input: {}, after: parent.id })
          const fault = failing(call, nth)
          bench.faults.before = fault.strike
          // Once it is accepted, a look that fails is none of its submitter's business.
          const refused = await submit().then(
            () => undefined,
            (cause) => cause,
          )
          if (nth === 1) expect(refused).toMatchObject({ code: "transport-unavailable", details: { id } })
          bench.faults.before = () => undefined
          expect((await submit()).receipt).toMatchObject({ id })
          await bench.look()
          expect(await bench.stateOf({ id })).toBe("queued")
          await bench.end("succeeded")
          expect(await bench.edges()).toEqual([])
          hasStruck = fault.hasStruck
        }
      },
    )

    test("whose record is stored, and not confirmed, is a duplicate the next time", async () => {
      await using bench = await setUp()
      const client = new Client(bench.faulty)
      const parent = await bench.submit("parent")
      const fields = { id: `child-${generateId()}`, input: {}, after: parent.id }
      bench.faults.after = failing("jobs.decide", 1, () => unavailable("unknown")).strike
      await expect(client.submit("step.run", fields)).rejects.toMatchObject({
        code: "transport-unavailable",
        details: { outcome: "unknown" },
      })
      expect((await client.submit("step.run", fields)).receipt).toMatchObject({ state: "deferred", duplicate: true })
      expect(await bench.edges()).toEqual([{ parent: parent.id, child: fields.id }])
    })

    test("of which a part cannot be stored accepts nothing that would wait for that part", async () => {
      await using bench = await setUp()
      const parent = await bench.submit("parent")
      const [a, b, c, d] = [`a-${generateId()}`, `b-${generateId()}`, `c-${generateId()}`, `d-${generateId()}`]
      const tasks = [
        { task: "step.run", id: a, input: {}, after: parent.id },
        { task: "step.run", id: b, input: {}, after: a },
        { task: "step.run", id: c, input: {}, after: [parent.id, b] },
        { task: "step.run", id: d, input: {}, after: parent.id },
      ]
      let isBroken = true
      const partly = answering(bench.connection, ({ id }) =>
        isBroken && id === a ? { status: "failed", error: unavailable("unknown") } : undefined,
      )
      const client = new Client(partly)
      expect(await client.submitMany(tasks)).toMatchObject([
        { code: "transport-unavailable", details: { id: a, outcome: "unknown" } },
        { code: "transport-unavailable", details: { id: b, outcome: "none" } },
        { code: "transport-unavailable", details: { id: c, outcome: "none" } },
        { id: d, state: "deferred" },
      ])
      isBroken = false
      expect(await client.submitMany(tasks)).toMatchObject([
        { id: a, state: "deferred" },
        { id: b, state: "deferred" },
        { id: c, state: "deferred" },
        { id: d, duplicate: true },
      ])
    })
  })
})
