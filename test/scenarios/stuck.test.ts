/** Handlers that run for long, or go on after their jobs were decided, and the tasks that must not wait for them. */
import { actor } from "callboard"
import { describe, expect, test } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

/** Traps ignore their hard limit of 0.2 seconds until they are let go. */
const trapActor = () => {
  const gate = Promise.withResolvers<void>()
  const trapped: Array<string> = []
  const traps = actor("traps", {
    methods: {
      trap: {
        timeLimit: { hard: 0.2 },
        run: async (_input: unknown, job) => {
          trapped.push(job.id)
          await gate.promise
        },
      },
      quick: () => "done",
    },
  })
  return { traps, trapped, release: () => gate.resolve() }
}

onEveryBoard((newBoard) => {
  describe("a worker whose slots are all held by stuck handlers", () => {
    test("hands back what waits, takes nothing, says so, and works again once a handler stops", async () => {
      const transport = newBoard()
      const names = { stuck: generateId(), healthy: generateId() }
      const { traps, trapped, release } = trapActor()
      const common = { transport, concurrency: 2, prefetch: 4 }
      const stuck = await start([traps], {
        ...common,
        name: names.stuck,
        queues: ["default", "own"],
        http: { port: 0 },
      })
      const { client, worker } = stuck
      const readiness = async () => {
        const answer = await fetch(`${stuck.url}/readyz`)
        return { status: answer.status, text: await answer.text() }
      }
      expect(await readiness()).toMatchObject({ status: 200 })
      const lost = [await client.submit("traps.trap"), await client.submit("traps.trap")]
      await eventually(() => trapped.length === 2, { message: "both traps have begun" })
      const waiting = await Promise.all(Array.from({ length: 12 }, () => client.submit("traps.quick")))
      const { worker: healthy } = await start([traps], { ...common, name: names.healthy, queues: ["default"] })
      for (const job of waiting) expect(await job.result({ timeout: 60 })).toBe("done")
      for (const job of lost) expect(await job.outcome({ timeout: 60 })).toMatchObject({ error: { reason: "timeout" } })
      await eventually(() => worker?.describe().state === "stuck", { message: "it is stuck" })
      expect(worker?.listening).toBe(false)
      await expect.poll(() => worker?.load).toMatchObject({ inFlight: 0, running: 2 })
      // The healthy worker may hear after this client that its last outcome is stored.
      await eventually(() => healthy?.describe().state === "idle", { message: "the other one is idle" })
      // Handed back tasks have not been tried.
      for (const job of waiting) expect(await job.find()).toMatchObject({ attempts: 1 })
      const own = await client.submit("traps.quick", { queue: "own" })
      await eventually(
        async () => (await client.workers()).some(({ name, state }) => name === names.stuck && state === "stuck"),
        { message: "the list of workers says that it is stuck" },
      )
      const { causes } = await client.why(own.id)
      expect(causes[0]).toMatchObject({ code: "workers-stuck", workers: [names.stuck] })
      expect(await readiness()).toMatchObject({ status: 503, text: expect.stringContaining("stuck") })
      expect(await own.find()).toMatchObject({ state: "queued" })

      release()
      expect(await own.result({ timeout: 60 })).toBe("done")
      await eventually(() => worker?.describe().state === "idle", { message: "it works again" })
      expect(await readiness()).toMatchObject({ status: 200 })
    })

    test("ends when that lasts longer than its grace", async () => {
      const { traps, release } = trapActor()
      const { client, stopped } = await start([traps], { transport: newBoard(), concurrency: 1, stuckGrace: "4s" })
      const began = performance.now()
      await client.submit("traps.trap")
      expect(await stopped).toMatchObject({ stuck: 1, handedBack: 0, lost: 0 })
      // That it is stuck is noticed after 1.5 seconds at most.
      expect(performance.now() - began).toBeGreaterThan(4_000)
      release()
    })
  })

  test("a worker with some stuck handlers pulls only what its free slots can take", async () => {
    const { traps, trapped, release } = trapActor()
    const gate = Promise.withResolvers<void>()
    const others = actor("others", { methods: { slow: () => gate.promise } })
    const { client, worker } = await start([traps, others], { transport: newBoard(), concurrency: 2, prefetch: 4 })
    const trap = await client.submit("traps.trap")
    expect(await trap.outcome({ timeout: 60 })).toMatchObject({ error: { reason: "timeout" } })
    expect(trapped).toHaveLength(1)
    // As many as two slots take.
    await Promise.all(Array.from({ length: 12 }, () => client.submit("others.slow")))
    await eventually(() => worker?.load.running === 2 && worker.load.inFlight === 4, {
      message: "one slot is stuck, and the other one holds its own share only",
    })
    expect(worker?.describe().state).toBe("busy")
    gate.resolve()
    release()
  })

  test("tasks do not wait in a worker behind a long run, and the next time nothing is fetched ahead", async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const started: Array<number> = []
    const mixed = actor("mixed", {
      methods: {
        slow: async ({ gate }: { gate: number }) => {
          started.push(gate)
          await gates[gate]?.promise
        },
        quick: () => "done",
      },
    })
    const transport = newBoard()
    const { client, worker: first } = await start([mixed], { transport, concurrency: 1, prefetch: 4 })
    const behind = async (gate: number) => {
      const slow = await client.submit("mixed.slow", { input: { gate } })
      await eventually(() => started.includes(gate), { message: "the long run has begun" })
      return { slow, quick: await Promise.all([1, 2, 3].map(() => client.submit("mixed.quick"))) }
    }
    const one = await behind(0)
    await eventually(() => first?.load.inFlight === 4, { message: "the others were fetched ahead" })
    const second = await start([mixed], { transport, concurrency: 1, prefetch: 4 })
    for (const job of one.quick) expect(await job.result({ timeout: 60 })).toBe("done")
    expect(first?.load.inFlight).toBe(1)
    await second.stop()
    gates[0]?.resolve()
    await one.slow.result({ timeout: 60 })
    // After a short run tasks are fetched ahead again, unless a method runs that is known to take long.
    expect(await (await client.submit("mixed.quick")).result({ timeout: 60 })).toBe("done")
    const two = await behind(1)
    let max = 0
    const allWait = async () => {
      max = Math.max(max, first?.load.inFlight ?? 0)
      return (await client.queues()).some(({ depth }) => depth === 3)
    }
    await eventually(allWait, { every: 5, message: "the others wait in their queue" })
    expect(max).toBe(1)
    const third = await start([mixed], { transport, concurrency: 1, prefetch: 4 })
    for (const job of two.quick) {
      expect(await job.result({ timeout: 60 })).toBe("done")
      // Handed back tasks are claimed when they come again; these were never fetched by the first worker.
      expect((await job.find()).worker).toBe(third.worker?.name)
    }
    expect(first?.load.inFlight).toBe(1)
    gates[1]?.resolve()
    await two.slow.result({ timeout: 60 })
  })
})
