/** Jobs that are cancelled or purged when they have just started, which no record shows yet. */
import { actor, type Client, type JobHandle } from "callboard"
import { expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

/** The next list of waiting jobs has this one, as if the list had been made before it was handed to a worker. */
const listAsWaiting = (client: Client, { id }: JobHandle) => {
  const lists = [[id], []]
  Object.assign(client.connection.jobs, { waiting: async () => lists.shift() ?? [] })
}

/** Purges the queue at the moment when the job was listed as waiting and has been handed to a worker since. */
const purge = async (client: Client, job: JobHandle) => {
  listAsWaiting(client, job)
  expect(await client.purge("default")).toBe(1)
}

const decisions: ReadonlyArray<readonly [string, (client: Client, job: JobHandle) => Promise<unknown>]> = [
  ["cancelled", (_client, job) => job.cancel()],
  ["purged", purge],
]

onEveryBoard((newBoard) => {
  test.each(decisions)(
    "a job that has just started and is %s is stopped, and tells that it ran",
    async (_what, decide) => {
      const started = Promise.withResolvers<AbortSignal>()
      const ends: Array<string> = []
      const brief = actor("brief", {
        methods: {
          run: (_input: unknown, job) =>
            new Promise<void>((resolve) => {
              started.resolve(job.signal)
              job.signal.addEventListener("abort", () => {
                ends.push("stopped")
                resolve()
              })
            }),
        },
      })
      const { client, worker } = await start([brief], { transport: newBoard(), concurrency: 1 })
      const job = await client.submit("brief")
      // Decided within the first moment of the run, of which the record knows nothing yet.
      const signal = await started.promise
      await decide(client, job)
      await eventually(() => signal.aborted, { message: "the handler is told" })
      expect(ends).toEqual(["stopped"])
      const view = await eventually(
        async () => {
          const found = await job.find()
          return found.attempts === 1 ? found : undefined
        },
        { message: "its record tells that it ran" },
      )
      expect(view).toMatchObject({ state: "cancelled", worker: worker?.name })
      expect(view.transitions.filter(({ attempt }) => attempt === 1)).toHaveLength(1)
    },
  )

  test("an outcome that comes after a purge is refused, and the record says so", async () => {
    const started = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const deaf = actor("deaf", {
      methods: {
        run: async () => {
          started.resolve()
          await gate.promise
          return "done"
        },
      },
    })
    const { client, worker } = await start([deaf], { transport: newBoard() })
    const { send } = client.connection.broadcast
    // The news of the purge is lost.
    Object.assign(client.connection.broadcast, { send: () => Promise.reject(new Error("lost")) })
    const job = await client.submit("deaf")
    await started.promise
    await purge(client, job)
    Object.assign(client.connection.broadcast, { send })
    gate.resolve()
    const view = await eventually(
      async () => {
        const found = await job.find()
        return found.transitions.some(({ reason }) => reason === "outcome-refused") ? found : undefined
      },
      { message: "the refusal is recorded" },
    )
    expect(view).toMatchObject({ state: "cancelled", attempts: 1, worker: worker?.name })
    expect(view.result).toBeUndefined()
  })

  test("an outcome that comes before a purge stands, also where the job was listed as waiting before", async () => {
    const brief = actor("brief", { methods: { run: () => "done" } })
    const { client } = await start([brief], { transport: newBoard() })
    const job = await client.submit("brief")
    expect(await job.result({ timeout: 60 })).toBe("done")
    listAsWaiting(client, job)
    expect(await client.purge("default")).toBe(0)
    await expect(job.cancel()).rejects.toMatchObject({ code: "already-terminal" })
    expect(await job.find()).toMatchObject({ state: "succeeded", result: "done" })
  })

  test("a purge leaves what is known to run", async () => {
    const gate = Promise.withResolvers<void>()
    const second = actor("second", {
      methods: {
        run: {
          retry: { max: 1, interval: 0 },
          run: async (_input: unknown, job) => {
            if (job.retries === 0) throw new Error("once")
            await gate.promise
            return "done"
          },
        },
      },
    })
    const { client } = await start([second], { transport: newBoard() })
    const job = await client.submit("second")
    // A second attempt is claimed before it runs, so that the record tells of it.
    const isKnown = async () => {
      const found = await client.connection.jobs.find(job.id)
      return found?.record.state === "started" && found.record.claims === 1
    }
    await eventually(isKnown, { message: "the second attempt is claimed" })
    listAsWaiting(client, job)
    expect(await client.purge("default")).toBe(0)
    gate.resolve()
    expect(await job.result({ timeout: 60 })).toBe("done")
  })
})
