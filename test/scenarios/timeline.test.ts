/** The way of a job, told like that of a parcel: over code and HTTP, while it goes on and afterwards; on every transport. */
import { actor, connect, http, type JobEvent } from "callboard"
import { Hono } from "hono"
import { expect, test } from "vitest"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const told = (event: JobEvent): string =>
  event.type === "progress"
    ? `progress ${event.fraction}`
    : [
        event.state,
        ...(event.attempt === undefined ? [] : [`attempt ${event.attempt}`]),
        ...(event.worker === undefined ? [] : [`on ${event.worker}`]),
        ...(event.reason === undefined ? [] : [event.reason]),
        ...(event.error === undefined ? [] : [`${event.error.name}: ${event.error.message}`]),
      ].join(", ")

onEveryBoard((newBoard) => {
  test("accepted, started by, progress, retried because, started by, finished", async () => {
    const url = newBoard()
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const parcel = actor("parcel", {
      methods: {
        send: {
          retry: { max: 1, interval: 0 },
          run: async (_input: unknown, job) => {
            job.progress(job.retries === 0 ? 0.25 : 0.75)
            await gates[job.retries]?.promise
            if (job.retries === 0) throw new RangeError("no such street")
            return "delivered"
          },
        },
      },
    })
    await using client = await connect(url)
    const job = await client.submit("parcel.send")
    const seen: Array<string> = []
    await start([parcel], { transport: url, name: "van-1", burst: false })
    for await (const event of job.events()) {
      seen.push(told(event))
      // Each attempt goes on once its progress was heard, since only the last one of a job is kept.
      if (event.type === "progress") gates[event.fraction < 0.5 ? 0 : 1]?.resolve()
    }
    const steps = [
      "queued",
      "started, attempt 1, on van-1",
      "queued, retry, RangeError: no such street",
      "started, attempt 2, on van-1",
      "succeeded",
    ]
    expect(seen.filter((each) => !each.startsWith("progress"))).toEqual(steps)
    const [first, second] = ["progress 0.25", "progress 0.75"]
    expect(seen.filter((each) => each === first || each === second)).toEqual([first, second])
    expect(seen.indexOf(first ?? "")).toBe(2)
    expect((await job.find()).transitions.map((each) => told({ type: "transition", ...each }))).toEqual(steps)

    const app = new Hono()
    app.route("/", http(client, { open: true }))
    const events = async (last?: string): Promise<ReadonlyArray<string>> => {
      const headers = { accept: "text/event-stream", ...(last === undefined ? {} : { "last-event-id": last }) }
      const text = await (await app.request(`http://localhost/v1/jobs/${job.id}/events`, { headers })).text()
      return [...text.matchAll(/^data: (\{"type":"(?:transition|progress)".*\})$/gm)].map(([, data = ""]) =>
        told(JSON.parse(data)),
      )
    }
    const replayed = [...steps.slice(0, -1), second, "succeeded"]
    expect(await events()).toEqual(replayed)
    expect(await events("1.3")).toEqual(replayed.slice(3))
  })
})
