/** Cut and silent connections: calls end in time and work again, and listeners keep getting news. */
import type { Committed, Driver, News, Posting, Receipt } from "../../../../runtime/transport/driver.ts"
import { hook } from "../../case.ts"
import { check, equal, isTransportError, refuses, sameSet } from "../../check.ts"
import { type DriverCase, offered, part } from "../case.ts"
import { type DriverContext, size, sleep } from "../context.ts"
import { answering, away, boundOf, mending, persist, takeThrough } from "../outage.ts"
import { bytes, idOf, idsOf, recordOf } from "../task.ts"
import { withoutUncaught } from "../uncaught.ts"
import { hear, ofJob } from "./news.ts"

const group = "recovery"

/** Runs a function during a cut, and heals the cut also when the function fails. */
const duringCut = async ({ harness, within }: DriverContext, run: () => Promise<void>): Promise<void> => {
  await within("the cut", harness.cut?.() ?? Promise.resolve())
  try {
    await run()
  } finally {
    await within("the healing", harness.heal?.() ?? Promise.resolve())
  }
}

/** Runs a function while the broker does not answer although its connections stay open. */
const duringSilence = async ({ harness, within }: DriverContext, run: () => Promise<void>): Promise<void> => {
  await within("the silence", harness.freeze?.() ?? Promise.resolve())
  try {
    await run()
  } finally {
    await within("the end of the silence", harness.heal?.() ?? Promise.resolve())
  }
}

/** All calls of a driver by name, with valid arguments: each has to notice a cut by itself. */
const calls = (
  driver: Driver,
  posting: Posting,
  token: string,
): ReadonlyArray<readonly [string, () => Promise<unknown>]> => {
  const { store, broadcast } = driver
  const { id } = posting
  const { signal } = new AbortController()
  const request = { queues: [posting.queue], max: 1, wait: 500, rotate: false }
  const failure = (answers: ReadonlyArray<{ readonly status: string; readonly error?: unknown }>): unknown => {
    const [answer] = answers
    if (answer?.status === "failed") throw answer.error
    return answer
  }
  return [
    ["publish", async () => failure(await driver.publish([posting]))],
    ["commit", async () => failure(await driver.commit([{ id, record: recordOf(posting, "failed") }]))],
    ["take", () => driver.take(request, signal)],
    ["extend", () => driver.extend([token])],
    ["read", () => driver.read([id], "all")],
    ["get", () => store.get(["a"])],
    ["write", () => store.write([{ key: "a", value: new Uint8Array(1) }])],
    ["list", () => store.list({ prefix: "", limit: 1 })],
    ...(driver.query ? [["query", async () => driver.query?.({ limit: 1 })] as const] : []),
    ...(driver.queues ? [["queues", async () => driver.queues?.()] as const] : []),
    ...(driver.waiting ? [["waiting", async () => driver.waiting?.({ queue: posting.queue }, 1)] as const] : []),
    ...(driver.orphans ? [["orphans", async () => driver.orphans?.(Date.now(), 1)] as const] : []),
    // An announcement may be lost without an error.
    ...(broadcast
      ? [["send", () => broadcast.send("a", new Uint8Array(1)).catch(() => Promise.reject(lost))] as const]
      : []),
  ]
}

/** What a driver says of the one item of a call. */
const outcomeOf = async (call: Promise<ReadonlyArray<Receipt | Committed | string> | "conflict">): Promise<string> => {
  const ofError = (error: unknown): string => {
    away(error, "an item whose answer is lost")
    return isTransportError(error) && error.outcome === "unknown" ? "perhaps" : "not done"
  }
  try {
    const answer = await call
    const [first] = typeof answer === "string" ? [answer] : answer
    if (typeof first !== "object") return first === "conflict" ? "a conflict with what it has done itself" : "done"
    if (first.status === "failed") return ofError(first.error)
    return first.status === "stored" || first.status === "committed"
      ? "done"
      : `${first.status} of what it has done itself`
  } catch (error) {
    return ofError(error)
  }
}

const lost = Symbol("an announcement that was lost")

export const cutCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "an answer that is lost in a cut is one about the item, with the outcome unknown; what is thrown was not tried",
    needs: [hook("cut")],
    exclusive: true,
    async run(context) {
      const { peer, fresh, tasks, within } = context
      const { driver } = peer
      const queue = fresh("queue")
      const untried: Array<string> = []
      /**
       * Notes the id of a call for which nothing was tried. Fails if the call rejects although it may have been done.
       */
      const lost = async (id: string, call: Promise<ReadonlyArray<Committed | Receipt>>): Promise<void> => {
        try {
          const [answer] = await call
          if (answer?.status !== "failed") return
          away(answer.error, "an item")
          if (answer.error.outcome === "none") untried.push(id)
        } catch (error) {
          away(error, "a call")
          check(
            isTransportError(error) && error.outcome === "none",
            "what may have been done must be answered, not thrown",
          )
          untried.push(id)
        }
      }
      const calling = tasks(60, { queue }).map((posting, at) => {
        const { id } = posting
        const record = recordOf(posting, "queued")
        return lost(id, at % 2 === 0 ? driver.publish([posting]) : driver.commit([{ id, record, post: [posting] }]))
      })
      await duringCut(context, async () => void (await within("the calls", Promise.all(calling), boundOf(context))))
      await answering(context)
      for (const id of untried) equal(await peer.read(id), undefined, "what is known where nothing was tried")
    },
  },
  {
    group,
    name: "where an answer is lost on its way, what is said of the item is true, and it was tried once",
    needs: [offered("loseAnswer")],
    exclusive: true,
    async run(context) {
      const { harness, options, within, fresh, task, peer, until } = context
      const driver = await within("a connection", harness.connect({ ...options(), reconnectDelay: () => 20 }))
      /** Asks until the broker answers: the answer that is lost may be that of a connection that rests. */
      const asking = <T>(what: string, ask: () => Promise<T>): Promise<readonly [T]> =>
        until(
          what,
          async () => {
            try {
              return [await ask()] as const
            } catch (error) {
              away(error, what)
              return false
            }
          },
          mending(context),
        )
      try {
        for (let round = 0; round < size(12, 60); round++) {
          const posting = task({ queue: fresh("queue") })
          const { id } = posting
          const [what, call, isDone] = (
            [
              ["publish", () => driver.publish([posting]), async () => (await peer.read(id))?.task !== undefined],
              [
                "commit",
                () => driver.commit([{ id, record: recordOf(posting, "failed") }]),
                async () => (await peer.read(id, "record"))?.record !== undefined,
              ],
              [
                "write",
                () => driver.store.write([{ key: id, value: bytes(id), expect: "" }]),
                async () => (await peer.get(id)) !== undefined,
              ],
            ] as const
          )[round % 3] ?? [undefined, undefined, undefined]
          if (what === undefined) continue
          await asking("an answer before the next one is lost", () => driver.store.get([id]))
          const takeBack = harness.loseAnswer?.(1 + (Math.floor(round / 3) % 2))
          const said = await within(`a ${what} whose answer is lost`, outcomeOf(call()), boundOf(context))
          takeBack?.()
          const [done] = await asking(`what a ${what} has done`, isDone)
          check(said === "perhaps" || said === (done ? "done" : "not done"), `a ${what}: ${said}, and ${done} is true`)
        }
      } finally {
        await within("close", driver.close(), 15_000)
      }
    },
  },
  {
    group,
    name: "connecting during a cut fails as unavailable within its timeout",
    needs: [hook("cut")],
    exclusive: true,
    async run(context) {
      const { harness, options, within, slack } = context
      await duringCut(context, async () => {
        const connecting = harness.connect({ ...options(), timeout: 1_500 }).then((driver) => driver.close())
        const refused = refuses(connecting, "unavailable", "connecting during a cut")
        await within("the failure of a connection", refused, 1_500 + 2 * slack)
      })
    },
  },
  {
    group,
    name: "a take that waits through a cut, or the next one, brings what comes afterwards",
    needs: [hook("cut")],
    exclusive: true,
    async run(context) {
      const { peer, fresh, task, within, until } = context
      const queue = fresh("queue")
      const waiting = takeThrough(peer, queue, 12_000)
      await sleep(100)
      await duringCut(context, () => sleep(300))
      const posting = task({ queue })
      await persist(context, [posting])
      const early = await within("the end of the take that waited", waiting, 20_000)
      const found =
        early[0] ?? (await until("the task", async () => (await takeThrough(peer, queue))[0], mending(context)))
      equal(idOf(found), posting.id, "what comes")
    },
  },
  {
    group,
    name: "every call during a cut fails as unavailable within a bound; an empty answer would say that nothing is there",
    needs: [hook("cut")],
    exclusive: true,
    async run(context) {
      const { peer, fresh, task, within, timed } = context
      const posting = task({ queue: fresh("queue") })
      const queue = fresh("held")
      await peer.publish(task({ queue }))
      const { token } = await peer.one(queue)
      const bound = boundOf(context)
      await duringCut(context, async () => {
        const outcomes = calls(peer.driver, posting, token).map(async ([name, call]) => {
          const took = timed()
          const error = await within(name, call(), bound + 5_000).then(
            () => (name === "send" ? lost : undefined),
            (failure: unknown) => failure,
          )
          took(0, bound, `milliseconds until ${name} failed`)
          check(error !== undefined, `${name} was answered during a cut, and must fail`)
          if (error !== lost) away(error, name)
        })
        await Promise.all(outcomes)
      })
    },
  },
  {
    group,
    name: "every call works again after a cut, within a bound, and what failed is stored once",
    needs: [hook("cut")],
    exclusive: true,
    async run(context) {
      const { peer, fresh, task, within, tasks, timed } = context
      const bound = boundOf(context)
      const [queue, other] = [fresh("queue"), fresh("other")]
      const [before, during] = tasks(2, { queue })
      check(before !== undefined && during !== undefined, "there are two tasks")
      await peer.publish(before)
      await duringCut(context, async () => {
        const { driver } = peer
        await within(
          "a receipt during a cut",
          driver.publish([during]).catch(() => []),
          bound + 5_000,
        )
      })
      await answering(context)
      for (const [name, call] of calls(peer.driver, task({ queue: other }), "1")) {
        const took = timed()
        await within(name, call(), bound + 5_000).catch((error: unknown) => {
          if (error !== lost) throw error
        })
        took(0, bound, `milliseconds until ${name} was answered`)
      }
      await persist(context, [during])
      sameSet(idsOf(await peer.all(queue, 2, 15_000)), [before.id, during.id], "what comes")
      await peer.none(queue, "the one that failed is stored once")
    },
  },
  {
    group,
    name: "who listens hears that news may have been missed in a cut, and what comes after it",
    needs: [hook("cut")],
    exclusive: true,
    async run(context) {
      const { peer, fresh, task, until } = context
      const queue = fresh("queue")
      const [jobs, queues] = [
        await peer.listen({ kind: "jobs" }),
        await peer.listen({ kind: "queues", queues: [queue] }),
      ]
      const missed = (heard: ReadonlyArray<News>) => heard.some(({ kind }) => kind === "missed")
      await duringCut(context, () => sleep(300))
      await answering(context)
      await until("missed, for both who listen", async () => missed(jobs) && missed(queues), mending(context))
      const posting = task({ queue })
      await persist(context, [posting])
      await until("news of a task, after the cut", async () => queues.some(({ kind }) => kind === "queue"))
      const other = task({ queue })
      await peer.put(other.id, recordOf(other, "failed"))
      await until("news of a record, after the cut", async () => jobs.some(ofJob(other.id)))
    },
  },
  {
    group,
    name: "announcements are heard after a cut",
    needs: [hook("cut"), part("broadcast")],
    exclusive: true,
    async run(context) {
      const { peer, until } = context
      const heard = await hear(context, peer, "news")
      await duringCut(context, () => sleep(300))
      await answering(context)
      await until(
        "an announcement after the cut",
        async () => {
          await peer.driver.broadcast?.send("news", new Uint8Array(1)).catch(() => undefined)
          return heard.length > 0
        },
        mending(context),
      )
    },
  },
  {
    group,
    name: "a connection that dies leaves no error that nobody catches",
    needs: [hook("cut")],
    exclusive: true,
    async run(context) {
      const { peer, fresh, task, another } = context
      await withoutUncaught(async () => {
        const queue = fresh("queue")
        const other = await another()
        await peer.listen({ kind: "jobs" })
        await other.listen({ kind: "queues", queues: [queue] })
        const waiting = [takeThrough(peer, queue, 1_000), takeThrough(other, queue, 1_000)]
        await duringCut(context, async () => {
          const under = calls(peer.driver, task({ queue }), "1").map(([, call]) => call().catch(() => undefined))
          await sleep(300)
          await other.close()
          await Promise.all([...under, ...waiting])
        })
        await answering(context)
      })
    },
  },
  {
    group,
    name: "who listens to the status hears of a cut and of its end, once each",
    needs: [hook("cut")],
    exclusive: true,
    async run(context) {
      const { peer, until } = context
      const heard: Array<string> = []
      const stopped: Array<string> = []
      peer.driver.onStatus((status) => heard.push(status))
      peer.driver.onStatus((status) => stopped.push(status))()
      await duringCut(context, async () => {
        await until("the status disconnected", async () => heard.includes("disconnected"), mending(context))
      })
      await until("the status connected", async () => heard.at(-1) === "connected", mending(context))
      equal(heard, ["disconnected", "connected"], "what was heard")
      equal(stopped, [], "what was heard by who had stopped listening")
    },
  },
  {
    group,
    name: "changes of the store are heard after a cut",
    needs: [hook("cut"), part("watch")],
    exclusive: true,
    async run(context) {
      const { peer, within, until } = context
      const { store } = peer.driver
      const heard: Array<string> = []
      const { signal } = new AbortController()
      await within("a watch", store.watch?.("p.", ({ key }) => heard.push(key), signal) ?? Promise.resolve())
      await duringCut(context, () => sleep(300))
      await answering(context)
      const write = () => store.write([{ key: "p.a", value: Uint8Array.of(1) }]).catch(() => undefined)
      const changed = async () => {
        await write()
        return heard.length > 0
      }
      await until("news of a value after the cut", changed, mending(context))
    },
  },
  {
    group,
    name: "tries to connect again wait as long as the application said, counted from 1",
    needs: [hook("cut")],
    exclusive: true,
    async run(context) {
      const { harness, options, within, until } = context
      const asked: Array<number> = []
      const reconnectDelay = (tries: number): number => {
        asked.push(tries)
        return 50
      }
      const driver = await within("a connection", harness.connect({ ...options(), reconnectDelay }))
      try {
        await duringCut(context, async () => {
          await until("a question how long to wait", async () => asked.length > 0, mending(context))
        })
        equal(asked[0], 1, "number of the first try")
      } finally {
        await within("close", driver.close(), 15_000)
      }
    },
  },
  {
    group,
    name: "a connection without a sign of life is lost after one and a half heartbeats",
    needs: [hook("cut")],
    exclusive: true,
    async run(context) {
      const { harness, options, within, until, slack, timed } = context
      const heartbeat = 1_000
      const driver = await within("a connection", harness.connect({ ...options(), heartbeat }))
      try {
        let status = "connected"
        driver.onStatus((now) => {
          status = now
        })
        const disturbance = harness.freeze === undefined ? duringCut : duringSilence
        await disturbance(context, async () => {
          const took = timed()
          await until("the status disconnected", async () => status === "disconnected", 1.5 * heartbeat + 2 * slack)
          took(0, 1.5 * heartbeat + slack, "milliseconds until the silence counted as a loss")
        })
      } finally {
        await within("close", driver.close(), 15_000)
      }
    },
  },
  {
    group,
    name: "with a heartbeat of 0, a connection that nothing is asked over is not lost by silence",
    needs: [offered("freeze")],
    exclusive: true,
    async run(context) {
      const { harness, options, within } = context
      const driver = await within("a connection", harness.connect({ ...options(), heartbeat: 0, timeout: 1_000 }))
      try {
        const heard: Array<string> = []
        driver.onStatus((status) => heard.push(status))
        await duringSilence(context, () => sleep(3_500))
        check(!heard.includes("disconnected"), "the silence must not count as a loss")
        equal(await within("an answer", driver.store.get(["a"])), [undefined], "value, after the silence")
      } finally {
        await within("close", driver.close(), 15_000)
      }
    },
  },
]
