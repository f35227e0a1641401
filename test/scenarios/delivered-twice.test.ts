/** A broker that keeps only queues delivers two copies of a task with one pull, as after a connection that was lost before a confirm. */
import { actor, connect } from "callboard"
import { expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import type { QueuePlugin } from "../../runtime/transport/mod.ts"
import { MemoryQueues, memoryQueue } from "../support/memory-queue.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"

/** Until then a worker knows that others may have come which it has not seen, and waits with a job that another may have. */
const COMPLETE_MS = 7_000

test.concurrent.for(["redeliver", "fail"] as const)(
  "two copies of a task in one pull run their job once, with onLost: %s",
  { timeout: 90_000 },
  async (onLost, { onTestFinished }) => {
    const queues = new MemoryQueues()
    // AMQP numbers its messages by the time in microseconds.
    queues.count = Date.now() * 1_000
    const plugin: QueuePlugin = {
      schemes: ["queues"],
      connect: async (_url, options) => {
        const queue = memoryQueue(queues, options)
        return {
          ...queue,
          publish: async (postings) => (await queue.publish([...postings, ...postings])).slice(0, postings.length),
        }
      },
    }
    const transports = { queues: plugin }
    const transport = `queues://broker?records=memory:${generateId()}`
    const client = await connect(transport, { transports })
    onTestFinished(() => client.close())
    const gate = Promise.withResolvers<void>()
    let runs = 0
    const slow = actor("slow", {
      methods: {
        run: {
          onLost,
          run: async () => {
            runs++
            await gate.promise
          },
        },
        next: () => "next",
      },
    })
    const began = performance.now()
    await start([slow], { transport, transports, concurrency: 4 }, onTestFinished)
    await eventually(() => performance.now() - began > COMPLETE_MS)
    const job = await client.submit("slow")
    // What comes after both copies has run.
    await (await client.submit("slow.next")).result({ timeout: 30 })
    await eventually(() => runs > 0)
    gate.resolve()
    expect(await job.outcome({ timeout: 30 })).toMatchObject({ state: "succeeded" })
    expect(runs).toBe(1)
  },
)
