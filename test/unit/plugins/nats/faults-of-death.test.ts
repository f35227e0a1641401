import { afterAll, beforeAll, describe, expect, test } from "vitest"
import type { JobPosting } from "../../../../runtime/protocol/message.ts"
import type { JobDelivery } from "../../../../runtime/transport/job-store/transport.ts"
import { idOf, recordOf } from "../../../kit/task.ts"
import { fastest } from "../../../support/fastest.ts"
import { type NatsServer, startNats } from "../../../support/servers/nats.ts"
import { never, setup, sleep, stored, task, until } from "./bench.ts"

describe("a server that dies", () => {
  let server: NatsServer
  beforeAll(async () => {
    server = await startNats()
  })
  afterAll(() => server?.stop())

  test("killed twice while jobs are published and run: each accepted job ends exactly once", async () => {
    await using bench = await setup(server, { lease: 1_500 })
    const { transport } = bench
    const accepted = new Set<string>()
    const outcomes = new Map<string, number>()
    let publishing = true
    const publish = async (): Promise<void> => {
      for (let batch = 0; batch < 60; batch++) {
        let left: ReadonlyArray<JobPosting> = Array.from({ length: 10 }, () => task())
        while (left.length > 0) {
          const receipts = await transport.jobs.publish(left).catch(() => undefined)
          const again: Array<JobPosting> = []
          for (const [at, posting] of left.entries()) {
            const receipt = receipts?.[at]
            if (receipt === undefined || receipt.status === "failed") again.push(posting)
            else accepted.add(posting.id)
          }
          left = again
          await sleep(15)
        }
      }
      publishing = false
    }
    const work = async (): Promise<void> => {
      for (const end = Date.now() + 120_000; Date.now() < end; ) {
        if (!publishing && [...accepted].every((id) => outcomes.has(id))) return
        const deliveries = await transport.jobs.take({ queues: ["q"], max: 20, wait: 300 }, never).catch(() => [])
        for (const delivery of deliveries) await run(delivery)
      }
    }
    const run = async (delivery: JobDelivery): Promise<void> => {
      if ("undecodable" in delivery.message) throw new Error(delivery.message.undecodable)
      const posting = { ...task({ id: idOf(delivery) }), message: delivery.message }
      let finished = false
      if (!delivery.fresh) {
        const claim = {
          token: delivery.token,
          id: posting.id,
          run: 1,
          retries: 0,
          worker: "w",
          at: Date.now(),
          posting,
        }
        const [claimed] = await transport.jobs.claim([claim]).catch(() => [])
        if (claimed?.status === "finished") finished = true
        else if (claimed?.status !== "started") return
      }
      const record = recordOf(posting, "succeeded", { fence: delivery.fence, result: delivery.fence })
      const settlement = { token: delivery.token, ...(finished ? {} : { record }), then: { kind: "ack" as const } }
      // Only calls that the runtime would repeat are repeated.
      const settled = await until("a settlement", async () => {
        const [answer] = await transport.jobs.settle([settlement])
        return answer?.status === "failed" && answer.error.retryable ? undefined : answer
      })
      // Where the task is gone, its lease had ended before the ack: the outcome is stored all the same.
      const stored = settled.status === "ended" || settled.status === "gone"
      if (settled.status === "superseded" || finished) outcomes.set(posting.id, outcomes.get(posting.id) ?? 1)
      else outcomes.set(posting.id, (outcomes.get(posting.id) ?? 0) + (stored ? 1 : 0))
    }
    const disturb = async (): Promise<void> => {
      for (let times = 0; times < 2; times++) {
        await sleep(400)
        await server.kill()
        await sleep(150)
        await server.restart()
      }
    }
    await Promise.all([publish(), work(), disturb()])
    expect(accepted.size).toBe(600)
    const records = await Promise.all([...accepted].map((id) => transport.jobs.find(id)))
    expect(records.filter((found) => found?.record.state !== "succeeded")).toEqual([])
    expect([...outcomes.values()].filter((times) => times !== 1)).toEqual([])
    await until("an empty queue", async () => {
      // When an ack was lost with the server, the task comes again, and the next worker acknowledges it.
      for (const delivery of await transport.jobs.take({ queues: ["q"], max: 20, wait: 0 }, never)) await run(delivery)
      const [stats] = (await transport.jobs.queues?.()) ?? []
      return stats !== undefined && stats.ready + stats.held === 0
    })
  }, 180_000)

  test("a pull that waits goes on within a second of the server's return, by itself", async () => {
    await using bench = await setup(server)
    await stored(bench, task({ queue: "other" }))
    const waiting = bench.transport.jobs.take({ queues: ["q"], max: 1, wait: 20_000 }, never)
    await sleep(100)
    await server.kill()
    await sleep(300)
    await server.restart()
    const back = performance.now()
    const posting = task()
    await until("a receipt", async () => (await bench.transport.jobs.publish([posting]))[0]?.status === "stored")
    expect((await waiting).map(idOf)).toEqual([posting.id])
    expect(performance.now() - back).toBeLessThan(1_500)
  })

  test("while it is away, publishing fails within two seconds as unavailable, and nothing is sent later", async () => {
    await using bench = await setup(server)
    await stored(bench, task())
    await server.kill()
    await sleep(50)
    const posting = task()
    const [failure, ms] = await fastest(2_000, () =>
      bench.transport.jobs.publish([posting]).then(
        ([receipt]) => (receipt?.status === "failed" ? receipt.error : undefined),
        (error: unknown) => error,
      ),
    )
    expect(failure).toMatchObject({ reason: "unavailable", outcome: "none" })
    expect(ms).toBeLessThan(2_000)
    await server.restart()
    await until("a connection", async () => (await bench.transport.jobs.find(posting.id)) === undefined)
    await stored(bench, posting)
  })

  test("a server that answers nothing fails a publish in time, as unknown, and the same again is no second task", async () => {
    await using bench = await setup(server)
    await stored(bench, task({ queue: "other" }))
    const posting = task({ queue: "other" })
    server.pause()
    await sleep(50)
    const start = performance.now()
    const [receipt] = await bench.transport.jobs.publish([posting])
    const took = performance.now() - start
    server.resume()
    expect(receipt).toMatchObject({ status: "failed", error: { reason: "unavailable", outcome: "unknown" } })
    expect(took).toBeLessThan(2_500)
    const again = await until("a receipt", async () => (await bench.transport.jobs.publish([posting]))[0])
    expect(["stored", "duplicate"]).toContain(again.status)
    expect((await bench.transport.jobs.take({ queues: ["other"], max: 10, wait: 1_000 }, never)).length).toBe(2)
  })

  test("what running jobs say is heard again after a restart", async () => {
    await using bench = await setup(server)
    const posting = task()
    await stored(bench, posting)
    const { token, fence } = await bench.one()
    const say = (fraction: number): Promise<void> =>
      bench.transport.jobs.report([
        { token, record: recordOf(posting, "started", { fence, progress: { fraction, at: 1 } }) },
      ])
    await say(0.1)
    await server.restart()
    await until("a report after the restart", async () => {
      await say(0.9)
      return (await bench.transport.jobs.find(posting.id))?.record.progress?.fraction === 0.9
    })
  })
})
