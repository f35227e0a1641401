/** Jobs that wait for jobs of every kind, with real workers: tried again, repeated, acked early, isolated, foreign, forgotten. */
import { actor, connect, Reject, type SubmissionFields } from "callboard"
import { Result } from "effect"
import { describe, expect, test } from "vitest"
import { plan } from "../../../../../runtime/client/submitting/plan.ts"
import { generateId } from "../../../../../runtime/id.ts"
import { EDGE_PREFIX } from "../../../../../runtime/jobs/dependencies/edges.ts"
import { onEveryBoard } from "../../../../scenarios/boards.ts"
import { eventually } from "../../../../support/servers/process.ts"
import { start } from "../../../../support/services.ts"
import { isolated } from "../../worker/isolated-actor.ts"

const WAIT = { timeout: 60 } as const

/** Steps that note when they run: `name`, and the number of the attempt or run. */
const stage = () => {
  const ran: Array<string> = []
  const note = (name: string) => {
    ran.push(name)
    return name
  }
  const step = actor("step", {
    methods: {
      run: ({ name }: { readonly name: string }) => note(name),
      fail: ({ name }: { readonly name: string }) => {
        note(name)
        throw new Reject(name)
      },
      flaky: {
        retry: { max: 2, backoff: { base: 0.05 } },
        run: ({ name }: { readonly name: string }, job) => {
          note(`${name}${job.attempt}`)
          if (job.attempt < 3) throw new TypeError("not yet")
          return name
        },
      },
      again: ({ name }: { readonly name: string }, job) => note(`${name}${job.run}`),
      early: { acks: { when: "early" }, run: ({ name }: { readonly name: string }) => note(name) },
      after: (_input: unknown, job) => job.after,
      /** Submits a job that waits for another that it submits. */
      breed: async (_input: unknown, job) => {
        const first = await job.submit("step.run", { input: { name: "first" } })
        const second = await job.submit("step.run", { input: { name: "second" }, after: first.id })
        return second.id
      },
    },
  })
  return { step, ran }
}

onEveryBoard((newBoard) => {
  const setUp = async () => {
    const { step, ran } = stage()
    const transport = newBoard()
    const client = await connect(transport)
    const submit = (name: string, fields: SubmissionFields & { readonly does?: string } = {}) => {
      const { does = "run", ...rest } = fields
      return client.submit(`step.${does}`, { input: { name }, id: `${name}-${generateId()}`, ...rest })
    }
    const work = () => start([step, isolated], { transport, concurrency: 2 })
    const edges = async () => (await client.connection.store.list({ prefix: EDGE_PREFIX, limit: 1_000 })).length
    return { client, submit, work, ran, edges }
  }

  describe("a job is waited for", () => {
    test("until the last of its attempts, or runs", async () => {
      const { client, submit, work, ran } = await setUp()
      const flaky = await submit("flaky", { does: "flaky" })
      const again = await submit("again", { does: "again", repeat: { times: 2, interval: 0.05 } })
      const child = await submit("child", { after: [flaky.id, again.id] })
      await work()
      await child.result(WAIT)
      expect(ran.at(-1)).toBe("child")
      expect(ran.slice(0, -1).sort()).toEqual(["again1", "again2", "again3", "flaky1", "flaky2", "flaky3"])
      await client.close()
    })

    test("whose task leaves its queue early, and that runs in a process of its own; isolated handlers see whom they waited for", async () => {
      const { client, submit, work, edges } = await setUp()
      const early = await submit("early", { does: "early" })
      const pid = await client.submit("isolated.pid")
      const after = [early.id, pid.id]
      const inline = await submit("inline", { does: "after", after })
      const apart = await client.submit("isolated.after", { after })
      const free = await client.submit("isolated.after")
      await work()
      expect(await inline.result(WAIT)).toEqual(after)
      expect(await apart.result(WAIT)).toEqual(after)
      expect(await free.result(WAIT)).toEqual([])
      await eventually(async () => (await edges()) === 0, { message: "no edge is left" })
      await client.close()
    })

    test("whatever its id is", async () => {
      const { client, submit, work } = await setUp()
      // As they come from elsewhere: longer, and of other letters, than the ids that we give.
      const ids = ["a/b", "after/0/x", "~YQ", "a b*>", "ä".repeat(127), "😀%2f"]
      const context = { now: Date.now(), origin: "test", defaults: { queue: "default" } }
      const external = ids.map((id) =>
        Result.getOrThrow(plan({ task: "step.run", input: { name: "foreign" } }, { ...context, id })),
      )
      await client.connection.jobs.publish(external)
      const child = await submit("child", { after: ids })
      expect((await child.find()).after).toEqual({ ids, waiting: ids })
      await work()
      expect(await child.result(WAIT)).toBe("child")
      const late = await submit("late", { after: ids })
      expect(await late.result(WAIT)).toBe("late")
      await client.close()
    })

    test("that keeps nothing of what came of it: a success counts, a failure leaves nothing to wait for", async () => {
      const { client, submit, work } = await setUp()
      const good = await submit("good", { resultTtl: 0 })
      const bad = await submit("bad", { does: "fail", failureTtl: 0 })
      const child = await submit("child", { after: good.id })
      const lenient = await submit("lenient", { after: { ids: [good.id, bad.id], allowFailure: true } })
      await work()
      expect(await child.result(WAIT)).toBe("child")
      expect(await lenient.result(WAIT)).toBe("lenient")
      expect(await (await submit("late", { after: good.id })).result(WAIT)).toBe("late")
      const strict = await submit("strict", { after: bad.id })
      expect(await strict.outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "dependency-gone" } })
      await client.close()
    })

    test("by a job that a handler submits", async () => {
      const { client, submit, work, ran } = await setUp()
      await work()
      const breed = await submit("breed", { does: "breed" })
      const second = String(await breed.result(WAIT))
      await client.job(second).result(WAIT)
      expect(ran).toEqual(["first", "second"])
      expect(await client.job(second).find()).toMatchObject({ parentId: breed.id, rootId: breed.id })
      await client.close()
    })
  })

  test("a deferred job that is cancelled and run again does not wait any more; nor does it leave an edge", async () => {
    const { client, submit, work, ran, edges } = await setUp()
    const parent = await submit("parent", { delay: 3600 })
    const child = await submit("child", { after: parent.id, delay: 3600 })
    await expect(child.retry()).rejects.toMatchObject({ code: "job-exists" })
    await child.cancel()
    expect(await edges()).toBe(0)
    expect(await child.retry()).toMatchObject({ state: "queued", run: 2, after: { ids: [parent.id] } })
    await work()
    await child.result(WAIT)
    expect(ran).toEqual(["child"])
    await client.close()
  })

  test("many at once: cancelled by their state, none of them runs, and no edge is left; a purge takes what is queued only", async () => {
    const { client, submit, work, ran, edges } = await setUp()
    const parent = await submit("parent", { queue: "other" })
    const ids = Array.from({ length: 40 }, () => generateId())
    await client.submitMany(ids.map((id) => ({ task: "step.run", id, input: { name: "child" }, after: parent.id })))
    const queued = await submit("queued")
    expect(await client.purge("default")).toBe(1)
    expect((await queued.find()).state).toBe("cancelled")
    expect((await client.jobs({ states: ["deferred"] })).jobs.map(({ id }) => id).sort()).toEqual([...ids].sort())

    const report = await client.cancelAll({ states: ["deferred"] })
    expect(report).toMatchObject({ changed: 40, refused: [] })
    expect(await edges()).toBe(0)
    await work()
    const last = await submit("last")
    await last.result(WAIT)
    expect(ran).toEqual(["last"])
    await client.close()
  })
})
