/** What workers keep about their jobs, as another process reads it, on every transport. */
import { actor, connect } from "callboard"
import { expect, test } from "vitest"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const orders = actor("orders", {
  methods: {
    total: ({ n }: { n: number }) => {
      if (n % 2 === 0) throw new RangeError(`order ${n} is not there`)
      return n
    },
  },
})

onEveryBoard((newBoard) => {
  test("series, causes, findings and queues are those of all workers", async () => {
    const url = newBoard()
    await using client = await connect(url)
    for (const version of ["1.0", "2.0"]) {
      const worker = await start([orders], { transport: url, name: `of ${version}/<b>`, version })
      const jobs = Array.from({ length: 6 }, (_, n) => client.submit("orders.total", { input: { n } }))
      await Promise.allSettled((await Promise.all(jobs)).map((job) => job.result()))
      await worker.stop()
    }
    const total = async (query: Parameters<typeof client.statistics.series>[0]) => {
      const { series } = await client.statistics.series(query)
      return Object.fromEntries(
        series.map(({ key, points }) => [
          key,
          "p50" in points ? 0 : points.reduce<number>((sum, n) => sum + (n ?? 0), 0),
        ]),
      )
    }
    expect(await total({ of: "ended", by: "outcome" })).toEqual({ ok: 6, failed: 6, other: 0 })
    expect(await total({ of: "ended", by: "version" })).toEqual({ "1.0": 6, "2.0": 6 })
    expect(await total({ of: "submitted" })).toEqual({ submitted: 12 })
    const { marks } = await client.statistics.series({ of: "ended" })
    expect(marks.map(({ kind, text }) => `${kind} ${text}`)).toEqual(["version 1.0", "version 2.0"])
    const { errors } = await client.statistics.errors({ range: 3_600_000, limit: 10 })
    expect(errors).toMatchObject([{ template: "order <n> is not there", count: 6, status: "new" }])
    const fingerprint = errors[0]?.fingerprint ?? ""
    const details = await client.statistics.error(fingerprint, 3_600_000)
    expect(details.by.version).toEqual([
      { key: "1.0", count: 3 },
      { key: "2.0", count: 3 },
    ])
    expect(details.traceback).toContain("RangeError")
    const found = await client.jobs({ error: fingerprint })
    expect(found.jobs.map(({ id }) => id).sort()).toEqual([...details.ids].sort())
    const stats = await client.statistics.stats(3_600_000)
    expect(stats).toMatchObject({
      counts: { succeeded: 6, failed: 6, queued: 0 },
      ended: { succeeded: 6, failed: 6 },
      workers: { alive: 0, lost: 0 },
      findings: [{ code: "failing", severity: "bad" }],
    })
    expect((await client.statistics.gone(900_000)).map(({ worker }) => worker)).toEqual(["of 2.0/<b>", "of 1.0/<b>"])
    expect(await client.statistics.queues()).toMatchObject([{ name: "default", depth: 0, workers: 0 }])
  })
})
