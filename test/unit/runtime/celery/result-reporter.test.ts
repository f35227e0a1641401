/** Completion of tasks that Celery clients submitted, with a result back end in this process. */
import { actor, connect } from "callboard"
import { Result } from "effect"
import { describe, expect, onTestFinished, test } from "vitest"
import { serveCeleryControl, TaskTotals } from "../../../../runtime/celery/control.ts"
import { CeleryEvents } from "../../../../runtime/celery/events.ts"
import { ResultReporter } from "../../../../runtime/celery/result-reporter.ts"
import { builtinTasks } from "../../../../runtime/celery/tasks.ts"
import { generateId } from "../../../../runtime/id.ts"
import { makeLog } from "../../../../runtime/log/log.ts"
import { type Embed, NO_EMBED } from "../../../../runtime/protocol/body.ts"
import { parseSignature, type Signature } from "../../../../runtime/protocol/celery/signature.ts"
import { controlMessage, parseReply } from "../../../../runtime/protocol/celery-control.ts"
import { decodeMeta, groupKey, metaKey } from "../../../../runtime/protocol/celery-result.ts"
import { composeMessage } from "../../../../runtime/protocol/compose.ts"
import { newTask, postingOf } from "../../../../runtime/protocol/headers.ts"
import type { Message } from "../../../../runtime/protocol/message.ts"
import { isTerminal } from "../../../../runtime/protocol/state.ts"
import { settingsOf } from "../../../../runtime/service/settings.ts"
import type { CeleryMessages, CeleryResults } from "../../../../runtime/transport/celery.ts"
import { TaskNames } from "../../../../runtime/worker/telemetry/observer.ts"
import { startWorker } from "../../../../runtime/worker/worker.ts"
import { eventually } from "../../../support/servers/process.ts"

/** A result back end with results and counters in maps. `before` is called before each write; if it fails, the write fails. */
const backEnd = (before: (keys: ReadonlyArray<string>) => Promise<void> = async () => undefined) => {
  const kept = new Map<string, Uint8Array>()
  const members = new Map<string, Map<string, number>>()
  const sizes = new Map<string, number>()
  const written: Array<string> = []
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
  const results: CeleryResults = {
    read: async (keys) => keys.map((key) => kept.get(key)),
    write: async (all) => {
      await before(all.map(({ key }) => key))
      for (const { key, value } of all) {
        kept.set(key, value)
        written.push(key)
      }
    },
    watch: async () => undefined,
    chords: {
      count: async ({ group, index, value }) => {
        const ended = members.get(group) ?? new Map<string, number>()
        members.set(group, ended.set(text(value), index ?? Number.POSITIVE_INFINITY))
        return { ended: ended.size, size: sizes.get(group) }
      },
      members: async (group) =>
        [...(members.get(group) ?? [])]
          .toSorted(([, a], [, b]) => a - b)
          .map(([member]) => new TextEncoder().encode(member)),
      expect: async (group, size) => void sizes.set(group, size),
      forget: async (group) => {
        members.delete(group)
        sizes.delete(group)
      },
    },
    close: async () => undefined,
  }
  const meta = (id: string) => {
    const bytes = kept.get(metaKey(id))
    return bytes === undefined ? undefined : Result.getOrThrow(decodeMeta(bytes))
  }
  return { results, kept, members, sizes, written, meta }
}

const sums = actor("sums", {
  methods: {
    add: { params: ["x", "y"], run: ({ x, y }: { readonly x: number; readonly y: number }) => x + y },
    all: { params: ["values"], run: ({ values }: { readonly values: ReadonlyArray<number> }) => values.length },
    fail: () => {
      throw new RangeError("no")
    },
    hold: (_: unknown, job) =>
      new Promise<null>((resolve) => job.signal.addEventListener("abort", () => resolve(null), { once: true })),
    told: { params: ["id"], run: ({ id }: { readonly id: string }) => id },
  },
})

const open = async (
  end: ReturnType<typeof backEnd>,
  messages?: Pick<CeleryMessages, "priorityOf">,
  size: { readonly concurrency?: number; readonly prefetch?: number } = {},
) => {
  const client = await connect(`memory:${generateId()}`)
  const stop = new AbortController()
  const log = makeLog({ level: "none" })
  const names = new TaskNames([sums], new Map())
  const totals = new TaskTotals()
  const reporter = new ResultReporter({
    results: end.results,
    messages,
    names,
    maxBody: 100_000,
    log,
    signal: stop.signal,
  })
  const builtin = builtinTasks({ names, reporter, results: end.results, connection: client.connection })
  const worker = await startWorker({
    ...settingsOf({ actors: [sums], ...size }),
    connection: client.connection,
    client,
    actors: [sums, builtin],
    name: "sums",
    leaseMs: 30_000,
    log,
    external: reporter,
    observers: [{ settled: (_, settlement) => reporter.settled(settlement) }, totals],
  })
  onTestFinished(async () => {
    stop.abort()
    await worker.stop({ now: true })
    await client.close()
  })
  const { jobs } = client.connection
  /** Submits a task as a Celery client does, without Callboard's header. */
  const send = async (
    name: string,
    args: ReadonlyArray<unknown>,
    {
      embed = {},
      kwargs = {},
      ...fields
    }: Partial<Parameters<typeof newTask>[0]> & {
      readonly embed?: Partial<Embed>
      readonly kwargs?: Readonly<Record<string, unknown>>
    } = {},
  ): Promise<string> => {
    const id = fields.id ?? generateId()
    const task = newTask({ ...fields, task: name, id, lang: "py" })
    const message = Result.getOrThrow(composeMessage(task, { args, kwargs, embed: { ...NO_EMBED, ...embed } }))
    await jobs.publish([Result.getOrThrow(postingOf(message, "default"))])
    return id
  }
  const ended = (id: string) => eventually(() => end.meta(id), { message: `${id} has a result`, deadline: 20_000 })
  return { client, jobs, send, ended, reporter, worker, names, totals, log, stop }
}

const signature = (task: string, options: object): Signature => Result.getOrThrow(parseSignature({ task, options }))

describe("a task of a client of Celery", () => {
  test("has its result kept before its own record tells the end", async () => {
    const states: Array<boolean> = []
    let look = async (): Promise<void> => undefined
    const end = backEnd(() => look())
    const { jobs, send, ended } = await open(end)
    const id = generateId()
    look = async () => void states.push(isTerminal((await jobs.find(id))?.record.state ?? "queued"))
    await send("sums.add", [2, 3], { id })
    expect(await ended(id)).toMatchObject({ status: "SUCCESS", result: 5, task_id: id })
    expect(states).toEqual([false])
    await eventually(async () => (await jobs.find(id))?.record.state === "succeeded")
  })

  test("is kept once the back end is there again", async () => {
    let left = 2
    const end = backEnd(async () => {
      if (left-- > 0) throw new Error("away")
    })
    const { send, ended } = await open(end)
    expect(await ended(await send("sums.fail", []))).toMatchObject({
      status: "FAILURE",
      result: { exc_type: "RangeError", exc_message: ["no"] },
      traceback: expect.stringContaining("RangeError"),
    })
  })

  test("that nothing serves fails at once", async () => {
    const { send, ended } = await open(backEnd())
    expect(await ended(await send("sums.nothing", []))).toMatchObject({ result: { exc_type: "NotRegistered" } })
  })

  test("does not run once it is revoked", async () => {
    const { reporter, send, ended } = await open(backEnd())
    const id = generateId()
    reporter.revoke([id])
    await send("sums.add", [1, 1], { id })
    expect(await ended(id)).toMatchObject({ status: "REVOKED", result: { exc_message: ["revoked"] } })
  })

  test("never overwrites a success when it is revoked", async () => {
    const end = backEnd()
    const { reporter, send, ended } = await open(end)
    const id = await send("sums.add", [1, 1])
    await ended(id)
    await reporter.keepRevoked([{ id }, { id: "other" }], "revoked")
    expect(end.meta(id)).toMatchObject({ status: "SUCCESS" })
    expect(end.meta("other")).toMatchObject({ status: "REVOKED" })
  })

  test("has follow-ups whose priorities are those of its broker", async () => {
    const end = backEnd()
    end.sizes.set("g", 1)
    const { client, send, ended } = await open(end, { priorityOf: (given) => 9 - (given ?? 0) })
    const told = (id: string, options = {}) => signature("sums.told", { task_id: id, ...options })
    const chord = told("body", { priority: 3 })
    const embed = { chain: [told("next")], callbacks: [told("callback", { priority: 2 })], chord }
    await send("sums.add", [1, 1], { embed, group: "g", groupIndex: 0 })
    const errbacks = [told("errback", { priority: 9 })]
    await send("sums.fail", [], { embed: { errbacks } })
    const priorities = ["next", "callback", "body", "errback"].map(async (id) => {
      await ended(id)
      return (await client.job(id).find()).priority
    })
    expect(await Promise.all(priorities)).toEqual([9, 7, 6, 0])
  })

  test("has the group that follows it as one child", async () => {
    const end = backEnd()
    const { send, ended } = await open(end)
    const told = (id: string, options = {}) => signature("sums.told", { task_id: id, ...options })
    const tasks = [told("a"), told("b")]
    const group = { ...signature("celery.group", { task_id: "g" }), subtask_type: "group", kwargs: { tasks } }
    const id = await send("sums.add", [1, 1], {
      embed: { callbacks: [told("c", { group_id: "h" })], chain: [group] },
    })
    const members = [
      [["a", null], null],
      [["b", null], null],
    ]
    const children = [
      [["c", null], null],
      [["g", null], members],
    ]
    expect(await ended(id)).toMatchObject({ children })
  })

  test("has several callbacks as one group", async () => {
    const end = backEnd()
    const { send, ended } = await open(end)
    const callbacks = ["a", "b"].map((id) => signature("sums.told", { task_id: id }))
    const { children = [] } = await ended(await send("sums.add", [1, 1], { embed: { callbacks } }))
    const members = [
      [["a", null], null],
      [["b", null], null],
    ]
    expect(children).toEqual([[[expect.any(String), null], members]])
    const { group_id } = await ended("a")
    expect(children).toMatchObject([[[group_id, null], members]])
    expect(await ended("b")).toMatchObject({ group_id })
  })

  test("that fails has no children", async () => {
    const { send, ended } = await open(backEnd())
    const errbacks = [signature("sums.told", { task_id: "told" })]
    expect(await ended(await send("sums.fail", [], { embed: { errbacks } }))).toMatchObject({ children: [] })
  })

  test("leaves a follow-up that is due later to the broker, from which a worker of Celery takes it", async () => {
    const { client, send, ended } = await open(backEnd())
    const later = { task_id: "later", queue: "theirs", countdown: 3600 }
    await ended(await send("sums.add", [1, 1], { embed: { chain: [signature("sums.told", later)] } }))
    const record = await eventually(() => client.connection.jobs.find("later"))
    expect(record.record.state).toBe("queued")
  })

  test("has follow-ups that are tasks of Celery's as well", async () => {
    const end = backEnd()
    const { send, ended } = await open(end)
    const chain = [signature("sums.all", { task_id: "last" })]
    const id = await send("sums.add", [[1], [2]], { embed: { chain } })
    expect(await ended("last")).toMatchObject({ parent_id: id })
    const failing = await send("sums.fail", [], {
      embed: {
        errbacks: [signature("sums.told", { task_id: "told" })],
        chain: [signature("sums.add", { task_id: "never", group_id: "g" })],
      },
    })
    expect(await ended("told")).toMatchObject({ status: "SUCCESS", result: failing })
    expect(await ended("never")).toMatchObject({
      status: "FAILURE",
      result: { exc_type: "RangeError" },
      group_id: "g",
    })
  })
})

describe("a chord", () => {
  const body = signature("sums.all", { task_id: "body", link_error: [signature("sums.told", { task_id: "told" })] })
  const member = (index: number) => ({ group: "g", groupIndex: index, embed: { chord: body } })

  test("has its body follow from the last member, once", async () => {
    const end = backEnd()
    end.sizes.set("g", 2)
    const { send, ended } = await open(end)
    await ended(await send("sums.add", [1, 1], member(0)))
    expect(end.meta("body")).toBeUndefined()
    await send("sums.add", [2, 2], member(1))
    expect(await ended("body")).toMatchObject({ status: "SUCCESS", result: 2 })
    expect(end.written.filter((key) => key === metaKey("body"))).toHaveLength(1)
    await eventually(() => end.members.size === 0 && end.sizes.size === 0, { message: "its counters are removed" })
  })

  test("gets the result of a member whose client ignores it", async () => {
    const end = backEnd()
    end.sizes.set("g", 1)
    const { send, ended } = await open(end)
    const told = signature("sums.told", { task_id: "body" })
    const id = await send("sums.add", [1, 1], { ...member(0), embed: { chord: told }, ignoreResult: true })
    expect(await ended("body")).toMatchObject({ status: "SUCCESS", result: [2] })
    expect(end.meta(id)).toBeUndefined()
  })

  test("fails once all have ended, with its errbacks", async () => {
    const end = backEnd()
    end.sizes.set("g", 2)
    const { send, ended } = await open(end)
    await ended(await send("sums.fail", [], member(0)))
    expect(end.meta("body")).toBeUndefined()
    await send("sums.add", [2, 2], member(1))
    expect(await ended("body")).toMatchObject({ status: "FAILURE", result: { exc_type: "ChordError" } })
    expect(await ended("told")).toMatchObject({ result: "body" })
  })

  test("whose body is a member of another chord fails that one with it", async () => {
    const end = backEnd()
    end.sizes.set("g", 1).set("outer", 2)
    const { send, ended } = await open(end)
    const last = signature("sums.all", { task_id: "last" })
    const inner = signature("sums.all", { task_id: "inner", group_id: "outer", group_index: 0, chord: last })
    await ended(await send("sums.fail", [], { ...member(0), embed: { chord: inner } }))
    expect(await ended("inner")).toMatchObject({ result: { exc_type: "ChordError" }, group_id: "outer" })
    expect(end.meta("last")).toBeUndefined()
    await send("sums.add", [2, 2], { group: "outer", groupIndex: 1, embed: { chord: last } })
    expect(await ended("last")).toMatchObject({ status: "FAILURE", result: { exc_type: "ChordError" } })
    await eventually(() => end.members.size === 0 && end.sizes.size === 0, { message: "the counters are removed" })
  })

  test("whose group was saved gets the results of nested members", async () => {
    const end = backEnd()
    end.sizes.set("g", 1)
    const nested = {
      result: [
        ["g", null],
        [
          [["a", null], null],
          [["h", null], [[["a", null], null]]],
        ],
      ],
    }
    end.kept.set(groupKey("g"), new TextEncoder().encode(JSON.stringify(nested)))
    const { send, ended } = await open(end)
    await send("sums.add", [1, 1], { ...member(0), id: "a" })
    expect(await ended("body")).toMatchObject({ result: 2 })
  })
})

test("the body of a chord may be a chord, or a chain that begins with one", async () => {
  const end = backEnd()
  const { send, ended } = await open(end)
  const chordOf = (group: string, last: string): Signature => ({
    ...signature("celery.chord", {}),
    kwargs: {
      header: [signature("sums.all", {}), signature("sums.all", {})],
      body: signature("sums.all", { task_id: last, group_id: group }),
    },
    subtask_type: "chord",
  })
  const chain = { ...signature("celery.chain", {}), subtask_type: "chain" }
  const bodies = [
    chordOf("h", "last"),
    { ...chain, kwargs: { tasks: [chordOf("i", "before"), signature("sums.told", { task_id: "after" })] } },
  ]
  for (const [at, chord] of bodies.entries()) {
    end.sizes.set(`g${at}`, 1)
    await send("sums.add", [1, 1], { embed: { chord }, group: `g${at}`, groupIndex: 0 })
  }
  expect(await ended("last")).toMatchObject({ status: "SUCCESS", result: 2 })
  expect(await ended("after")).toMatchObject({ status: "SUCCESS", result: 2 })
})

describe("the built-in task", () => {
  test("accumulate gives a group that replaces a task the results of its members", async () => {
    const end = backEnd()
    end.sizes.set("g", 1)
    const { send, ended } = await open(end)
    const body = { ...signature("celery.accumulate", { task_id: "body" }), kwargs: { index: 0 } }
    await send("sums.add", [1, 1], { group: "g", groupIndex: 0, embed: { chord: body } })
    expect(await ended("body")).toMatchObject({ status: "SUCCESS", result: [2] })
  })

  test("chunks submits a group of starmaps", async () => {
    const end = backEnd()
    const { send, ended } = await open(end)
    const kwargs = {
      task: signature("sums.add", {}),
      it: [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
      n: 2,
    }
    await send("celery.chunks", [], { id: "c", kwargs })
    const parts = [
      [["c.0", null], null],
      [["c.1", null], null],
    ]
    expect(await ended("c")).toMatchObject({ status: "SUCCESS", result: [["c.group", null], parts] })
    expect(await ended("c.0")).toMatchObject({ result: [3, 7], group_id: "c.group", parent_id: "c" })
    expect(await ended("c.1")).toMatchObject({ result: [11], group_id: "c.group" })
  })

  test.each([{ n: 0 }, { n: "2" }, { it: 7 }, { task: 7 }])("chunks with %j fails", async (wrong) => {
    const end = backEnd()
    const { send, ended } = await open(end)
    const kwargs = { task: signature("sums.add", {}), it: [[1, 2]], n: 2, ...wrong }
    expect(await ended(await send("celery.chunks", [], { kwargs }))).toMatchObject({ status: "FAILURE" })
  })

  test.each([
    [[7], {}, [7]],
    [[7, 8], {}, [7, 8]],
    [[7, 8], { index: 1 }, 8],
    [[7, 8], { index: -1 }, 8],
  ])("accumulate of %j with %j is %j", async (args, kwargs, result) => {
    const end = backEnd()
    const { send, ended } = await open(end)
    expect(await ended(await send("celery.accumulate", args, { kwargs }))).toMatchObject({ result })
  })
})

describe("a worker of Celery that starts", () => {
  /** Sends a command, and resolves with the answer. */
  const asking = async ({ reporter, client, worker, names, totals, log, stop }: Awaited<ReturnType<typeof open>>) => {
    const heard: Array<(message: Message) => void> = []
    const answers: Array<unknown> = []
    const messages: CeleryMessages = {
      priorityOf: () => 4,
      submit: async () => undefined,
      broadcast: async () => undefined,
      listen: async (_exchange, listener) => void heard.push(listener),
      send: async (_exchange, _key, message) => void answers.push(Result.getOrThrow(parseReply(message)).replies[0]),
      receive: async () => undefined,
      close: async () => undefined,
    }
    await serveCeleryControl({
      messages,
      events: new CeleryEvents({ messages, node: "ours@lab", enabled: false, log }),
      revoked: reporter,
      worker,
      client,
      names,
      totals,
      taskNames: new Map(),
      node: "ours@lab",
      heartbeat: () => undefined,
      shutdown: () => undefined,
      log,
      signal: stop.signal,
    })
    return async (
      method: string,
      given: Readonly<Record<string, unknown>>,
      asked: { readonly matcher?: string } = {},
    ) => {
      const nobody = { destination: null, pattern: "o*", matcher: null, clock: 1 }
      const reply = { exchange: "reply", routingKey: "me", ticket: "t" }
      const message = Result.getOrThrow(controlMessage({ method, arguments: given, reply, ...nobody, ...asked }))
      const before = answers.length
      for (const listener of heard) listener(message)
      return eventually(() => answers[before], { message: `${method} is answered` })
    }
  }

  test("a worker that is asked by a regular expression says that it takes none, and does nothing", async () => {
    const opened = await open(backEnd())
    const ask = await asking(opened)
    expect(await ask("add_consumer", { queue: "more" }, { matcher: "pcre" })).toEqual({
      node: "ours@lab",
      value: {
        error:
          "add_consumer is not executed: patterns of matcher pcre are not supported; use matcher glob, or name the workers in destination",
      },
    })
    expect(opened.worker.queues).not.toContain("more")
    expect(await ask("ping", {}, { matcher: "glob" })).toMatchObject({ value: { ok: "pong" } })
  })

  test("add_consumer refuses what a worker does not consume from, by name", async () => {
    const opened = await open(backEnd())
    const ask = await asking(opened)
    const plain = { queue: "more", exchange: null, exchange_type: "direct", routing_key: null }
    for (const [option, value] of [
      ["exchange", "news"],
      ["exchange_type", "fanout"],
      ["exchange_type", "topic"],
      ["routing_key", "more.#"],
      ["exclusive", true],
      ["bindings", []],
    ] as const) {
      const { value: said } = (await ask("add_consumer", { ...plain, [option]: value })) as { value: unknown }
      expect(said).toEqual({ error: expect.stringContaining(`${option} ${JSON.stringify(value)} is not supported: `) })
      expect(opened.worker.queues).not.toContain("more")
    }
    expect(await ask("add_consumer", {})).toMatchObject({ value: { error: "queue must name the queue" } })
    const served = { ...plain, exchange: "more", routing_key: "more", durable: true }
    expect(await ask("add_consumer", served)).toMatchObject({ value: { ok: "add consumer more" } })
    expect(await ask("add_consumer", plain)).toMatchObject({ value: { ok: "already consuming from more" } })
    expect(opened.worker.queues).toContain("more")
  })

  test("counts tasks by as many names as submitters may make up, and the others by their methods", async () => {
    const { send, ended, totals } = await open(backEnd())
    const ids: Array<string> = []
    for (let n = 0; n < 1_005; n++) ids.push(await send("sums.add", [1, 2], { shadow: `s${n}` }))
    for (const id of ids) await ended(id)
    expect([totals.counts.size, totals.counts.get("sums.add")]).toEqual([1_001, 5])
  })

  test("shows a task that runs by its shadow and by its own name, and counts the tasks by the former", async () => {
    const opened = await open(backEnd())
    const ask = await asking(opened)
    await opened.ended(await opened.send("sums.add", [1, 1]))
    await opened.ended(await opened.send("sums.add", [1, 1]))
    const id = await opened.send("sums.hold", [], { shadow: "long" })
    await eventually(() => opened.worker.inspect().active.length === 1)
    expect(await ask("active", {})).toMatchObject({ value: [{ id, name: "long", type: "sums.hold" }] })
    expect(await ask("query_task", { ids: [id] })).toMatchObject({ value: { [id]: ["active", { type: "sums.hold" }] } })
    expect(await ask("stats", {})).toMatchObject({ value: { total: { "sums.add": 2, long: 1 } } })
  })

  test("shows a task that waits for a handler by both names as well", async () => {
    const opened = await open(backEnd(), undefined, { concurrency: 1, prefetch: 3 })
    const ask = await asking(opened)
    await opened.send("sums.hold", [])
    await eventually(() => opened.worker.inspect().active.length === 1)
    const id = await opened.send("sums.add", [1, 1], { shadow: "short" })
    await eventually(() => opened.worker.inspect().reserved.length === 1)
    expect(await ask("reserved", {})).toMatchObject({ value: [{ id, name: "short", type: "sums.add" }] })
    expect(await ask("query_task", { ids: [id] })).toMatchObject({ value: { [id]: ["reserved", { name: "short" }] } })
  })

  test("tells of a revoked task which group and which parent it has", async () => {
    const opened = await open(backEnd())
    const ask = await asking(opened)
    await opened.client.pause("default")
    const id = await opened.send("sums.add", [1, 1], { group: "g", parentId: "p" })
    await ask("revoke", { task_id: [id] })
    expect(await opened.ended(id)).toMatchObject({ status: "REVOKED", group_id: "g", parent_id: "p" })
  })

  test("fails a chord one of whose members was revoked while it waited", async () => {
    const end = backEnd()
    end.sizes.set("g", 2)
    const opened = await open(end)
    const ask = await asking(opened)
    await opened.client.pause("default")
    const member = (groupIndex: number) => ({
      group: "g",
      groupIndex,
      embed: { chord: signature("sums.all", { task_id: "body" }) },
    })
    const revoked = await opened.send("sums.add", [1, 1], member(0))
    await opened.send("sums.add", [2, 2], member(1))
    await ask("revoke", { task_id: [revoked] })
    // A queue that no worker serves does not hold up the end of the member.
    await eventually(() => end.members.get("g")?.size === 1, { deadline: 20_000 })
    await opened.client.resume("default")
    expect(await opened.ended("body")).toMatchObject({
      status: "FAILURE",
      result: { exc_message: [expect.stringContaining("TaskRevokedError")] },
    })
    expect(end.meta(revoked)).toMatchObject({ status: "REVOKED", group_id: "g" })
  })

  test("terminates a member of a chord that has only just begun to run", async () => {
    const end = backEnd()
    const opened = await open(end)
    const ask = await asking(opened)
    const embed = { chord: signature("sums.all", { task_id: "body" }) }
    const id = await opened.send("sums.hold", [], { group: "g", groupIndex: 0, embed })
    await eventually(() => opened.worker.inspect().active.length === 1)
    await ask("revoke", { task_id: [id], terminate: true })
    await eventually(() => opened.worker.inspect().active.length === 0)
    expect(await opened.client.job(id).find()).toMatchObject({ state: "cancelled" })
  })

  test("fails a chord one of whose members has expired before a worker took it", async () => {
    const end = backEnd()
    end.sizes.set("g", 1)
    const opened = await open(end)
    await opened.client.pause("default")
    const embed = { chord: signature("sums.all", { task_id: "body" }) }
    const fields = { group: "g", groupIndex: 0, embed, expires: Date.now() + 500 }
    const member = await opened.send("sums.add", [1, 1], fields)
    expect(await opened.ended("body")).toMatchObject({
      status: "FAILURE",
      result: { exc_message: [expect.stringContaining("TaskRevokedError")] },
    })
    expect(end.meta(member)).toMatchObject({ status: "REVOKED", group_id: "g" })
    await eventually(async () => (await opened.jobs.find(member))?.record.state === "expired")
  })

  test.each(["expires", "is cancelled", "is purged"])(
    "tells of a waiting task that %s in another process",
    async (how) => {
      const end = backEnd()
      end.sizes.set("g", 1)
      const opened = await open(end)
      await opened.client.pause("default")
      const embed = { chord: signature("sums.all", { task_id: "body" }) }
      const fields = { group: "g", groupIndex: 0, embed, ...(how === "expires" && { expires: Date.now() + 500 }) }
      const member = await opened.send("sums.add", [1, 1], fields)
      if (how === "is cancelled") await opened.client.job(member).cancel()
      if (how === "is purged") await opened.client.purge("default")
      const state = how === "expires" ? "expired" : "cancelled"
      await eventually(async () => (await opened.client.job(member).find()).state === state)
      expect(await opened.ended("body")).toMatchObject({
        status: "FAILURE",
        result: { exc_message: [expect.stringContaining("TaskRevokedError")] },
      })
      expect(end.meta(member)).toMatchObject({
        status: "REVOKED",
        result: { exc_message: [how === "expires" ? "expired" : "revoked"] },
        group_id: "g",
      })
      await eventually(() => end.members.size === 0 && end.sizes.size === 0, { message: "its counters are removed" })
    },
  )

  test("learns which tasks were revoked, and tells of those that it knows", async () => {
    const end = backEnd()
    const opened = await open(end)
    const ask = await asking(opened)
    await ask("revoke", { task_id: ["a"] })
    const answer = await ask("hello", { from_node: "theirs@lab", revoked: { b: [4711.25, "b"] } })
    // Celery takes nothing but floats for the times, which `time.monotonic()` has given.
    const time = expect.toSatisfy((at: unknown) => typeof at === "number" && !Number.isInteger(at))
    expect(answer).toMatchObject({ node: "ours@lab", value: { revoked: { a: [time, "a"], b: [4711.25, "b"] } } })
    expect(await ask("revoked", {})).toMatchObject({ value: ["a", "b"] })
    expect(await opened.ended(await opened.send("sums.add", [1, 1], { id: "b" }))).toMatchObject({ status: "REVOKED" })
  })
})

test("jobs of Callboard's clients leave the back end alone", async () => {
  const end = backEnd()
  const { client } = await open(end)
  const job = await client.submit("sums.add", { args: [1, 2], callbacks: [{ task: "sums.told", id: "after" }] })
  expect(await job.result()).toBe(3)
  await client.job("after").result()
  expect(end.written).toEqual([])
})
