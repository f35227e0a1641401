/** Stored data survives closed connections, restarts and cuts; calls end in time; listeners keep getting news. */
import type { Committed, Delivery, Driver, News, Posting, Receipt } from "../../../../runtime/transport/driver.ts"
import { delay, durable, hook } from "../../case.ts"
import { check, equal, isTransportError, refuses, sameSet } from "../../check.ts"
import { type DriverCase, offered, part } from "../case.ts"
import { type DriverContext, patience, size, sleep, taken } from "../context.ts"
import type { DriverPeer } from "../peer.ts"
import { idOf, idsOf, recordOf, text } from "../task.ts"
import { withoutUncaught } from "../uncaught.ts"
import { hear, ofJob } from "./news.ts"

const group = "recovery"
/** Longest time that a call may take while the broker does not answer, in milliseconds. */
const boundOf = ({ harness }: DriverContext): number => harness.bound ?? 15_000

/** Fails unless the error says that the broker is away. */
const away = (error: unknown, what: string): void => {
  check(
    isTransportError(error) && error.reason === "unavailable",
    `${what} may fail as unavailable only: ${String(error)}`,
  )
}

/** Longest time until a driver works again, in milliseconds. */
const mending = (context: DriverContext): number => patience(boundOf(context) + 5_000)

/** Publishes tasks one by one, and repeats each until it is stored. */
const persist = async ({ peer, until }: DriverContext, postings: ReadonlyArray<Posting>): Promise<void> => {
  for (const posting of postings) {
    await until(
      "a receipt, trying again while the broker is away",
      async () => {
        try {
          const [receipt] = await peer.driver.publish([posting])
          if (receipt?.status !== "failed") return receipt !== undefined
          away(receipt.error, "a publish")
        } catch (error) {
          away(error, "a publish")
        }
        return false
      },
      patience(20_000),
    )
  }
}

/** Takes once. Resolves with no deliveries while the broker is away. */
const takeThrough = async ({ driver }: DriverPeer, queue: string, wait = 500): Promise<ReadonlyArray<Delivery>> => {
  try {
    const request = { queues: [queue], max: 5, wait, rotate: false }
    return (await driver.take(request, new AbortController().signal)).deliveries
  } catch (error) {
    away(error, "a take")
    return []
  }
}

/**
 * Takes and acks tasks until each of the ids has been delivered. Their time begins when the disturbance is over: how long
 * a server takes to start again says nothing about its tasks.
 */
const consume = async (
  { peer }: DriverContext,
  queue: string,
  ids: ReadonlyArray<string>,
  disturbance: Promise<unknown>,
): Promise<void> => {
  const left = new Set(ids)
  let end = Number.POSITIVE_INFINITY
  const begin = () => {
    end = Date.now() + patience(25_000)
  }
  disturbance.then(begin, begin)
  /** Deliveries whose ack got no answer. It may have succeeded, so that the task is not delivered again. */
  const held = new Map<string, string>()
  while (left.size > 0) {
    check(Date.now() < end, `all tasks must come, ${left.size} of ${ids.length} did not`)
    const deliveries = await takeThrough(peer, queue, 300)
    if (deliveries.length === 0) await sleep(10)
    for (const delivery of deliveries) held.set(idOf(delivery), delivery.token)
    for (const [id, token] of held) {
      try {
        const [answer] = await peer.driver.commit([{ id, task: { kind: "ack", token } }])
        if (answer?.status !== "committed") continue
        left.delete(id)
        held.delete(id)
      } catch (error) {
        away(error, "a commit")
      }
    }
  }
}

/** Disturbs the broker while tasks are published, then while they are consumed. */
const throughDisturbance = (context: DriverContext, disturb: () => Promise<void>): Promise<void> =>
  withoutUncaught(async () => {
    const { fresh, tasks, peer, within, until, harness } = context
    const queue = fresh("queue")
    const postings = tasks(size(60, 600), { queue })
    const ids = postings.map(({ id }) => id)
    const third = Math.floor(postings.length / 3)
    await persist(context, postings.slice(0, third))
    await Promise.all([persist(context, postings.slice(third)), within("the restart", disturb(), 30_000)])
    if (harness.capabilities.dedupeWindow > 0 && peer.driver.waiting !== undefined) {
      // All tasks may have been published before the restart, so the connection need not be back yet.
      const waiting = () => peer.waiting({ queue }, 10_000).catch((error: unknown) => void away(error, "a list"))
      const found = await until("a list of what waits", waiting, mending(context))
      sameSet(found, ids, "what waits after publishing through a restart")
    }
    const disturbance = within("the restart", disturb(), 30_000)
    await Promise.all([consume(context, queue, ids, disturbance), disturbance])
  })

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

/** Resolves when the broker answers again. */
const answering = ({ peer, until }: DriverContext): Promise<unknown> =>
  until("an answer after the cut", () => peer.driver.store.get(["a"]).catch(() => undefined), patience(20_000))

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

const lost = Symbol("an announcement that was lost")

export const recoveryCases: ReadonlyArray<DriverCase> = [
  {
    group,
    name: "what was stored outlives all connections",
    needs: [durable],
    async run({ peer, fresh, task, harness, another }) {
      const queue = fresh("queue")
      const due = harness.capabilities.delay > 0 ? { due: Date.now() + 900 } : {}
      const [waiting, later, ended] = [task({ queue }), task({ queue, ...due }), task({ queue })]
      await peer.publish(waiting, later)
      const revision = await peer.put(ended.id, recordOf(ended, "succeeded", { says: "kept" }))
      await peer.written({ key: "a", value: Uint8Array.of(7) })
      await peer.close()
      const next = await another()
      const known = await next.known(ended.id)
      equal([text(known.record), known.revision], ["kept", revision], "record and revision")
      check((await next.known(waiting.id)).task !== undefined, "the task that waits must be known")
      equal((await next.get("a"))?.value, Uint8Array.of(7), "value in the store")
      sameSet(idsOf(await next.all(queue, 2, 8_000)), [waiting.id, later.id], "what comes")
    },
  },
  {
    group,
    name: "a task that was in hand when all connections ended comes again, with a higher fence",
    needs: [durable],
    lease: 1_000,
    async run({ peer, fresh, task, another }) {
      const queue = fresh("queue")
      await peer.publish(task({ queue }))
      const first = await peer.one(queue)
      await peer.close()
      const second = await (await another()).one(queue, 8_000)
      check(second.fence > first.fence, `fences must rise: ${first.fence}, then ${second.fence}`)
      equal(second.first, false, "what a second delivery says to be first")
    },
  },
  {
    group,
    name: "a restart while publishing and while consuming loses nothing that was stored",
    needs: [hook("restart"), durable],
    lease: 2_000,
    exclusive: true,
    timeout: patience(90_000),
    run: (context) => throughDisturbance(context, async () => context.harness.restart?.()),
  },
  {
    group,
    name: "a sudden end while publishing and while consuming loses nothing that was stored",
    needs: [hook("kill"), durable],
    lease: 2_000,
    exclusive: true,
    timeout: patience(90_000),
    run: (context) => throughDisturbance(context, async () => context.harness.kill?.()),
  },
  {
    group,
    name: "a task that is in hand during a sudden end comes again, with a higher fence",
    needs: [hook("kill"), durable],
    lease: 2_000,
    exclusive: true,
    async run({ peer, fresh, task, harness, within, until }) {
      const { queue, posting, delivery: first } = await taken(peer, task({ queue: fresh("queue") }))
      await within("the sudden end", harness.kill?.() ?? Promise.resolve(), 30_000)
      const second = await until("the task, afterwards", async () => (await takeThrough(peer, queue))[0], 20_000)
      equal(idOf(second), posting.id, "what comes")
      check(second.fence > first.fence, `fences must rise: ${first.fence}, then ${second.fence}`)
      equal(second.first, false, "what a second delivery says to be first")
    },
  },
  {
    group,
    name: "what a commit answers about a sudden end is true, and what it cannot say is done as a whole or can be repeated",
    needs: [hook("kill"), durable],
    exclusive: true,
    timeout: patience(90_000),
    async run(context) {
      const { peer, fresh, tasks, task, harness, within, until } = context
      const [queue, next] = [fresh("queue"), fresh("next")]
      const postings = tasks(size(80, 400), { queue })
      await peer.publish(...postings)
      const deliveries = await peer.all(queue, postings.length)
      const commits = deliveries.map((delivery) => {
        const follower = task({ queue: next })
        const { token } = delivery
        const record = recordOf(follower, "succeeded")
        return { id: idOf(delivery), record, post: [follower], task: { kind: "ack", token } } as const
      })
      const answers = new Map<string, Committed>()
      const thrown = new Set<string>()
      const left = [...commits]
      const committing = async (lane: number): Promise<void> => {
        // The calls are not in step with each other, so that the cut comes in the middle of some.
        await sleep(2 * lane)
        for (let commit = left.shift(); commit !== undefined; commit = left.shift()) {
          const committed = peer.driver.commit([commit]).catch((error: unknown) => {
            away(error, "a commit")
            thrown.add(commit.id)
            return []
          })
          const [answer] = await within("a commit", committed, 30_000)
          if (answer !== undefined) answers.set(commit.id, answer)
          await sleep(1)
        }
      }
      const kill = sleep(15).then(() => harness.kill?.())
      const lanes = Array.from({ length: 8 }, (_, lane) => committing(lane))
      await Promise.all([...lanes, within("the sudden end", kill, 30_000)])
      await answering(context)
      const { atomic } = harness.capabilities
      for (const { id, post } of commits) {
        const answer = answers.get(id)
        const [own, follower] = await until("what is known of a job", () =>
          peer.reads([id, post[0].id]).catch(() => undefined),
        )
        const done = { record: own?.record !== undefined, post: follower !== undefined, task: own?.task === undefined }
        const all = { record: true, post: true, task: true }
        if (answer?.status === "committed") {
          // Ending the task is the last step. A broker that does not confirm it may lose it, and delivers the task
          // again.
          equal(
            [own?.revision, atomic ? done : { ...done, task: true }],
            [answer.revision, all],
            "revision, and what was done, of a commit that was answered",
          )
        } else if (answer?.status === "failed" && answer.revision !== undefined) {
          check(!atomic, "an atomic commit that failed has stored no record, and answers no revision")
          equal(
            [own?.revision, done.record],
            [answer.revision, true],
            "revision and record of a commit that failed later",
          )
        } else {
          check(answer?.status !== "conflict", "a commit that expects what is stored must be no conflict")
          const none = answer?.status === "failed" && answer.error.outcome === "none"
          check(!(none && done.record), `a commit that failed with the outcome none must have stored nothing: ${id}`)
        }
        check(!thrown.has(id) || !done.record, "a commit that throws has tried nothing; this one stored its record")
        check(done.record || !done.post, "a posting must not be there before its record")
        check(done.post || !done.task, "a task must not be ended before the posting is there")
        if (atomic)
          equal(done, done.record ? all : { record: false, post: false, task: false }, "what an atomic commit did")
      }
    },
  },
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
    name: "a scheduled task, a record and a stored value outlive a restart",
    needs: [hook("restart"), durable, delay],
    exclusive: true,
    async run({ peer, fresh, task, harness, until, within, another }) {
      const queue = fresh("queue")
      const [later, ended] = [task({ queue, due: Date.now() + 4_000 }), task({ queue })]
      await peer.publish(later)
      await peer.put(ended.id, recordOf(ended, "succeeded", { says: "kept" }))
      await peer.written({ key: "a", value: Uint8Array.of(7) })
      await within("the restart", harness.restart?.() ?? Promise.resolve(), 30_000)
      const next = await until("a connection after the restart", () => another().catch(() => undefined), 15_000)
      equal(await next.says(ended.id), "kept", "record")
      equal((await next.get("a"))?.value, Uint8Array.of(7), "value in the store")
      equal(idOf(await next.one(queue, 15_000)), later.id, "what comes in time")
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
