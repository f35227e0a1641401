/** Acceptance scenarios of conductors, which have the jobs of a board run as jobs of a queue. */
import { type ActorDefinition, actor, type ConductorEvent, type ConductorOptions, connect } from "callboard"
import { TransportError } from "callboard/transport"
import * as Schema from "effect/Schema"
import { describe, expect, onTestFinished, test } from "vitest"
import { gate, sleep } from "../support/faulty-board.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { onEveryBoard } from "./boards.ts"

const BOARD = "flows"

const away = () => new TransportError("unavailable", "the storage is away")

onEveryBoard((newBoard) => {
  /** A worker with these flows, a client with the board, and conductors that note their events. */
  const begin = async (flows: ActorDefinition) => {
    const transport = newBoard()
    const { client: working } = await start([flows], { transport, unknownGrace: 0.1 })
    const client = await connect(transport)
    onTestFinished(() => client.close())
    const told: Array<ConductorEvent> = []
    const conduct = (options: Partial<ConductorOptions> = {}, over = client) =>
      over.conductor({ board: BOARD, onEvent: (event) => told.push(event), ...options })
    return {
      transport,
      client,
      working,
      board: client.board(BOARD),
      conduct,
      told,
      events: () => told.map(({ event }) => event),
    }
  }

  describe("a conductor", () => {
    test("S064 consumes a job whose flow succeeds, and tells so", async () => {
      const { client, board, conduct, told, events } = await begin(
        actor("flow", { methods: { run: (input: unknown) => input } }),
      )
      const book = { name: "b", uuid: "u" }
      const job = await board.post("a", { details: { flow: "flow" }, book })
      const conductor = conduct({ maxDispatches: 1, name: "me" })
      expect(conductor.dispatching).toBe(false)
      const ended = conductor.run()
      expect([conductor.dispatching, conductor.run()]).toEqual([true, ended])
      await ended
      expect(conductor.dispatching).toBe(false)
      expect(events()).toEqual(["running_start", "running_end", "job_consumed"])
      expect(told[0]).toEqual({ event: "running_start", board: BOARD, id: job.id, name: "a" })
      expect([await job.state(), await board.count()]).toEqual(["COMPLETE", 0])
      expect(await client.job(`board-${job.id}`).find()).toMatchObject({ book, result: {} })
    })

    test("S065 consumes a job whose flow fails, after its steps were reverted", async () => {
      const done: Array<string> = []
      const { client, board, conduct, events } = await begin(
        actor("flow", {
          methods: {
            run: async (_input: unknown, { step }) => {
              await step("a", () => done.push("a"), { revert: () => void done.push("-a") })
              throw new Error("b fails")
            },
          },
        }),
      )
      const job = await board.post("a", { details: { flow: "flow" } })
      await conduct({ maxDispatches: 1 }).run()
      expect(events()).toEqual(["running_start", "job_consumed"])
      expect(done).toEqual(["a", "-a"])
      expect(await job.state()).toBe("COMPLETE")
      expect(await client.job(`board-${job.id}`).find()).toMatchObject({ state: "failed", reverted: true })
    })

    test("S067 moves a job without the input that its flow requires to the trash, and does not run it", async () => {
      let ran = false
      const { board, conduct, told } = await begin(
        actor("flow", {
          methods: {
            run: {
              input: Schema.Struct({ x: Schema.Number }),
              run: () => {
                ran = true
              },
            },
          },
        }),
      )
      await board.post("a", { details: { flow: "flow" } })
      await conduct({ maxDispatches: 1 }).run()
      expect(told).toMatchObject([{ event: "job_trashed", why: expect.stringContaining("x") }])
      expect([ran, await board.count()]).toEqual([false, 0])
    })

    test("S068 overlays the store of the book by that of the job", async () => {
      const { client, board, conduct } = await begin(actor("flow", { methods: { run: (input: unknown) => input } }))
      const details = { flow: "merge", bookStore: { a: 1, c: 3 }, store: { a: 2, b: 1 } }
      const job = await board.post("a", { details })
      await conduct({ maxDispatches: 1, flows: { merge: "flow.run" } }).run()
      expect(await client.job(`board-${job.id}`).result()).toEqual({ a: 2, b: 1, c: 3 })
    })

    test("S069 gives its claim up when it is stopped; the flow goes on, and the next conductor finds it", async () => {
      const { open, opened } = gate()
      let runs = 0
      const { board, conduct, events } = await begin(
        actor("flow", {
          methods: {
            run: async () => {
              runs++
              await opened
            },
          },
        }),
      )
      const job = await board.post("a", { details: { flow: "flow" } })
      const conductor = conduct()
      const ended = conductor.run()
      await eventually(() => runs === 1, { message: "the flow starts" })
      expect(await conductor.wait(0.01)).toBe(false)
      conductor.stop()
      expect(await conductor.wait(10)).toBe(true)
      await ended
      expect(conductor.dispatching).toBe(false)
      expect(await job.state()).toBe("UNCLAIMED")
      expect(events()).toEqual(["running_start", "job_abandoned"])
      // The same conductor can run again.
      const again = conductor.run()
      await eventually(async () => (await job.state()) === "CLAIMED", { message: "it is taken again" })
      open()
      await eventually(async () => (await job.state()) === "COMPLETE", { message: "it is consumed" })
      conductor.stop()
      await again
      expect(runs).toBe(1)
      expect(events().slice(2)).toEqual(["running_start", "running_end", "job_consumed"])
    })

    test("S071 has as many jobs at a time as it may, and takes as many as it may", async () => {
      let [now, most] = [0, 0]
      const { board, conduct, events } = await begin(
        actor("flow", {
          methods: {
            run: async () => {
              most = Math.max(most, ++now)
              await sleep(100)
              now--
            },
          },
        }),
      )
      for (let n = 0; n < 6; n++) await board.post(`${n}`, { details: { flow: "flow" } })
      let [claimed, looks] = [0, 0]
      const conductor = conduct({ maxSimultaneousJobs: 2, maxDispatches: 5 })
      const ended = conductor.run()
      while (conductor.dispatching) {
        const { jobs } = await board.list()
        claimed = Math.max(claimed, jobs.filter(({ state }) => state === "CLAIMED").length)
        looks++
        await sleep(5)
      }
      await ended
      expect([looks > 3, claimed, most]).toEqual([true, 2, 2])
      expect(events().filter((event) => event === "job_consumed")).toHaveLength(5)
      expect(await board.count()).toBe(1)
      // Without a bound.
      for (let n = 0; n < 5; n++) await board.post(`${n}`, { details: { flow: "flow" } })
      await conduct({ maxSimultaneousJobs: 0, maxDispatches: 6 }).run()
      expect(await board.count()).toBe(0)
      expect(most).toBeGreaterThan(2)
    })

    test("S073 abandons a job whose flow fails because of the infrastructure, and has it run again", async () => {
      let runs = 0
      const { client, board, conduct, events } = await begin(
        actor("flow", {
          methods: {
            run: () => {
              if (++runs === 1) throw away()
              return "done"
            },
            mixed: () => {
              throw new AggregateError([away(), new Error("no")], "both")
            },
          },
        }),
      )
      const job = await board.post("a", { details: { flow: "flow" } })
      await conduct({ maxDispatches: 2 }).run()
      expect(events()).toEqual(["running_start", "job_abandoned", "running_start", "running_end", "job_consumed"])
      expect(await client.job(`board-${job.id}`).result()).toBe("done")
      await board.post("mixed", { details: { flow: "flow.mixed" } })
      await conduct({ maxDispatches: 1 }).run()
      expect(events().slice(5)).toEqual(["running_start", "job_consumed"])
    })

    test("S074 moves a job to the trash that has failed so often because of the infrastructure", async () => {
      let runs = 0
      const { client, board, conduct, events, told } = await begin(
        actor("flow", {
          methods: {
            run: () => {
              if (++runs <= 3) throw away()
            },
          },
        }),
      )
      const job = await board.post("a", { details: { flow: "flow" } })
      await conduct({ maxDispatches: 3 }).run()
      expect(events().filter((event) => event !== "running_start")).toEqual([
        "job_abandoned",
        "job_abandoned",
        "job_trashed",
      ])
      expect(told.at(-1)?.why).toBe(`job board-${job.id} failed: TransportError: the storage is away`)
      expect(runs).toBe(3)
      expect((await board.trashed()).map(({ id }) => id)).toEqual([job.id])
      // Someone who has seen to the cause retries the job, and restores it.
      await client.job(`board-${job.id}`).retry()
      await board.restore(job.id)
      await conduct({ maxDispatches: 1 }).run()
      expect(events().at(-1)).toBe("job_consumed")
      expect(runs).toBe(4)
    })

    test("moves a job to the trash that names no flow, or one that cannot be submitted or that nobody serves", async () => {
      const { client, board, conduct, told } = await begin(actor("flow", { methods: { run: () => undefined } }))
      const cases: ReadonlyArray<readonly [details: Record<string, unknown>, why: RegExp]> = [
        [{}, /^details\.flow: must be the name of a flow$/],
        [{ flow: 1 }, /^details\.flow: must be the name of a flow$/],
        [{ flow: "none" }, /^details\.flow: there is no flow "none"$/],
        [{ flow: "toString" }, /^details\.flow: there is no flow "toString"$/],
        [{ flow: "good", store: [1] }, /^details\.store: must be an object$/],
        [{ flow: "good", bookStore: "x" }, /^details\.bookStore: must be an object$/],
        [{ flow: "method" }, /flow has no method none/],
        [{ flow: "actor" }, /^job board-\S+ failed: NotRegistered: /],
      ]
      for (const [details] of cases) await board.post("a", { details })
      const flows = { good: "flow", method: "flow.none", actor: "nobody" }
      await conduct({ flows, maxDispatches: cases.length }).run()
      const trashed = told.filter(({ event }) => event !== "running_start")
      expect(trashed.map(({ event }) => event)).toEqual(cases.map(() => "job_trashed"))
      for (const [at, [, why]] of cases.entries()) expect(trashed[at]?.why).toMatch(why)
      expect(await board.count()).toBe(0)
      expect((await client.jobs({})).jobs.map(({ task }) => task)).toEqual(["nobody"])
    })

    test("two of them have each job once, and are listed as entities while they run", async () => {
      const runs: Array<number> = []
      const { board, conduct, events, working } = await begin(
        actor("flow", { methods: { run: ({ n }: { readonly n: number }) => void runs.push(n) } }),
      )
      const first = conduct({ name: "first", maxSimultaneousJobs: 2 })
      const second = conduct({ name: "second", maxSimultaneousJobs: 2 }, working)
      const ended = [first.run(), second.run()]
      await eventually(async () => (await board.entities("conductor")).length === 2, { message: "both are listed" })
      expect((await board.entities("conductor")).map(({ name, metadata }) => [name, metadata?.["pid"]])).toEqual([
        ["first", process.pid],
        ["second", process.pid],
      ])
      const numbers = [...Array(20).keys()]
      for (const n of numbers) await board.post(`${n}`, { details: { flow: "flow", store: { n } } })
      await eventually(async () => (await board.count()) === 0, { message: "all are consumed" })
      first.stop()
      second.stop()
      await Promise.all(ended)
      expect(runs.toSorted((a, b) => a - b)).toEqual(numbers)
      expect(events().filter((event) => event === "job_consumed")).toHaveLength(20)
      expect(await board.entities()).toEqual([])
    })

    test("consumes its jobs also where the listener of its events fails", async () => {
      const { board, conduct } = await begin(actor("flow", { methods: { run: () => undefined } }))
      await board.post("a", { details: { flow: "flow" } })
      const onEvent = () => {
        throw new Error("a listener that fails")
      }
      await conduct({ maxDispatches: 1, onEvent }).run()
      expect([await board.count(), await board.trashed()]).toEqual([0, []])
    })

    test("one with another task for the same flow awaits the job that there is", async () => {
      const { client, board, conduct, events } = await begin(actor("flow", { methods: { run: () => "new" } }))
      const job = await board.post("a", { details: { flow: "f" } })
      // An earlier task of the flow, in a queue without workers.
      await client.submit("flow.gone", { id: `board-${job.id}`, queue: "old" }, { lenient: true })
      const conductor = conduct({ flows: { f: "flow" }, maxDispatches: 1 })
      const ended = conductor.run()
      await eventually(() => events().length === 1, { message: "it is awaited" })
      await client.job(`board-${job.id}`).cancel()
      await ended
      expect(events()).toEqual(["running_start", "job_consumed"])
    })

    test("ends with its client, which gives its claims up", async () => {
      const { open, opened } = gate()
      onTestFinished(open)
      let runs = 0
      const { transport, board, conduct } = await begin(
        actor("flow", {
          methods: {
            run: async () => {
              runs++
              await opened
            },
          },
        }),
      )
      const other = await connect(transport)
      const job = await board.post("a", { details: { flow: "flow" } })
      const ended = conduct({}, other).run()
      await eventually(() => runs === 1, { message: "the flow starts" })
      await other.close()
      await ended
      expect(await job.state()).toBe("UNCLAIMED")
      await expect(conduct({}, other).run()).rejects.toMatchObject({ code: "not-connected" })
    })
  })

  test("a service runs conductors, and stops them with itself", async () => {
    const { open, opened } = gate()
    const transport = newBoard()
    const client = await connect(transport)
    onTestFinished(() => client.close())
    const told: Array<string> = []
    let runs = 0
    const flow = actor("flow", {
      methods: {
        run: async () => {
          runs++
          await opened
        },
      },
    })
    await start([flow], { transport })
    const conducting = await start([], {
      transport,
      conductors: [{ board: "one", onEvent: ({ event, board }) => told.push(`${board} ${event}`) }, { board: "two" }],
    })
    const [one, two] = await Promise.all(
      ["one", "two"].map((name) => client.board(name).post("a", { details: { flow: "flow" } })),
    )
    await eventually(() => runs === 2, { message: "both flows start" })
    await conducting.stop()
    expect([await one?.state(), await two?.state()]).toEqual(["UNCLAIMED", "UNCLAIMED"])
    expect(told).toEqual(["one running_start", "one job_abandoned"])
    open()
  })
})
