/** Acceptance scenarios of the order in which jobs start: queues, priorities, the front, turns; on every transport. */
import { setImmediate } from "node:timers/promises"
import { actor, connect } from "callboard"
import { connect as dial } from "nats"
import { describe, expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

/** An actor that notes the names of its jobs in the order in which they start. */
const witness = () => {
  const started: Array<string> = []
  const note = actor("order", { methods: { run: (name: string) => void started.push(name) } })
  return { started, note }
}

interface Task {
  readonly name: string
  readonly queue?: string
  readonly priority?: number
  readonly front?: boolean
}

/** Submits tasks, and then runs one worker with one handler until no task is left. Resolves with the names in the order of starts. */
const orderOf = async (
  transport: string,
  tasks: ReadonlyArray<Task>,
  options: { readonly queues?: ReadonlyArray<string>; readonly order?: "rotate"; readonly prefetch?: number } = {},
): Promise<ReadonlyArray<string>> => {
  const { started, note } = witness()
  await using client = await connect(transport)
  for (const { name, ...more } of tasks) await client.submit("order", { args: [name], ...more })
  // On a busy machine a consumer of nats counts a task some time after its submission was acknowledged.
  await eventually(async () => (await client.queues()).reduce((sum, { depth }) => sum + depth, 0) === tasks.length, {
    message: "all tasks wait",
  })
  const service = await start([note], { transport, concurrency: 1, burst: true, ...options })
  await service.stopped
  return started
}

const names = (prefix: string, count: number): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, at) => `${prefix}${at}`)

const tasksOf = (queue: string, count: number): ReadonlyArray<Task> =>
  names(queue, count).map((name) => ({ name, queue }))

onEveryBoard((newBoard, transport) => {
  test("S102 first in, first out: 100 jobs of one queue start in the order of submission", async () => {
    expect(await orderOf(newBoard(), tasksOf("default", 100))).toEqual(names("default", 100))
  })

  test("S103 at the front: before all that waits, and several in their own order", async () => {
    const tasks = [
      { name: "hi0", priority: 9 },
      { name: "hi1" },
      { name: "front0", front: true },
      { name: "front1", front: true },
    ]
    expect(await orderOf(newBoard(), tasks)).toEqual(["front0", "front1", "hi0", "hi1"])
  })

  test("S104 strict order of queues, whatever came first", async () => {
    const tasks = [...tasksOf("lo", 2), ...tasksOf("hi", 2), { name: "lo9", queue: "lo", priority: 9 }]
    expect(await orderOf(newBoard(), tasks, { queues: ["hi", "lo"] })).toEqual(["hi0", "hi1", "lo9", "lo0", "lo1"])
  })

  test.each([1, 4, 9])("S106 round robin, with %i held per handler: the queues take turns", async (prefetch) => {
    const queues = ["hi", "df", "lo"]
    const tasks = queues.flatMap((queue) => tasksOf(queue, 3))
    expect(await orderOf(newBoard(), tasks, { queues, order: "rotate", prefetch })).toEqual(
      [0, 1, 2].flatMap((at) => queues.map((queue) => `${queue}${at}`)),
    )
  })

  test("S106 the default: queue after queue", async () => {
    const queues = ["hi", "df", "lo"]
    const tasks = queues.toReversed().flatMap((queue) => tasksOf(queue, 3))
    expect(await orderOf(newBoard(), tasks, { queues })).toEqual(queues.flatMap((queue) => names(queue, 3)))
  })

  test("priorities 0–9 of one queue: the highest first, in order of submission within a band", async () => {
    // Each priority occurs twice, in an order that is neither rising nor falling.
    const priorities = [3, 8, 1, 6, 0, 9, 4, 7, 2, 5, 5, 2, 7, 4, 9, 0, 6, 1, 8, 3]
    const tasks = priorities.map((priority, at) => ({ name: `${at}`, priority }))
    const bands = { nats: [9, 6, 3], redis: [9, 6, 3, 0] }[String(transport)] ?? [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    const band = (priority: number) => bands.findLast((highest) => priority <= highest) ?? 0
    const expected = tasks.toSorted((a, b) => band(b.priority) - band(a.priority)).map(({ name }) => name)
    expect(await orderOf(newBoard(), tasks, { prefetch: 1 })).toEqual(expected)
  })

  describe.each([
    { between: "queues", high: { queue: "high" }, low: { queue: "low" }, options: { queues: ["high", "low"] } },
    { between: "priorities", high: { priority: 9 }, low: { priority: 0 }, options: { prefetch: 1 } },
  ])("between $between", ({ high, low, options }) => {
    // On memory there are more tasks, since they cost least there.
    const [highs, lows] = transport === "memory" ? [500, 10_000] : [200, 2_000]
    test.each([4, 16])(
      `${highs} high jobs thrown into a backlog of ${lows} low ones are overtaken by ${transport === "nats" ? "no more than are taken at a time" : "none that had not started"} (%i handlers)`,
      async (concurrency) => {
        await using resources = new AsyncDisposableStack()
        const namespace = generateId()
        const board = newBoard()
        // Client and worker share one connection, on which acknowledgements and tasks arrive in the order in which they were sent.
        const target =
          transport === "nats"
            ? resources.adopt(await dial({ servers: new URL(board).host }), (connection) => connection.close())
            : board
        const client = resources.use(await connect(target, { namespace }))
        const { started, note } = witness()
        const many = async (kind: typeof high | typeof low, prefix: string, count: number) => {
          const tasks = names(prefix, count).map((name) => ({ task: "order", args: [name], ...kind }))
          const answers = await client.submitMany(tasks)
          expect(answers.filter((answer) => answer instanceof Error)).toEqual([])
        }
        for (let batch = 0; batch < 10; batch++) await many(low, "low", lows / 10)
        const service = await start([note], { transport: target, namespace, concurrency, ...options })
        resources.defer(async () => void (await service.stop({ now: true })))
        await eventually(() => started.length >= lows / 10, { every: 1, deadline: 60_000 })
        await many(high, "high", highs)
        // Tasks that arrived together with the last acknowledgement start in this turn of the event loop.
        await setImmediate()
        const accepted = started.length
        const isHigh = (name: string) => name.startsWith("high")
        await eventually(() => started.filter(isHigh).length === highs, { deadline: 60_000 })
        const overtakers = started.slice(accepted, started.findLastIndex(isHigh)).filter((name) => !isHigh(name))
        // On a broker that is asked lane by lane, the take that is under way may bring low jobs.
        expect(overtakers.length).toBeLessThanOrEqual(transport === "nats" ? concurrency : 0)
        expect(started.filter(isHigh)).toHaveLength(highs)
      },
      60_000,
    )
  })
})
