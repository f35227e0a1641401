/** Mutants of hostile input, of closing and of recovery. */
import type { Committed, Driver, Posting, Receipt } from "../../../../runtime/transport/driver.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"
import { sleep } from "../../stage.ts"
import { idOf } from "../task.ts"
import { answers, breaking, broken, type DriverMutant, deliveries, postings, whole } from "./mutant.ts"
import { deduplicating, inSteps } from "./publish.ts"

type Breaker = DriverMutant["breaker"]

const closing = (close: (driver: Driver) => () => Promise<void>): Breaker =>
  breaking((driver) => ({ close: close(driver) }))

/** Closes a while after `close` has resolved. */
const lingering = closing(({ close }) => async () => {
  void sleep(4_000).then(close)
})

/** Reports every tenth publish as stored without storing it. */
const leaking = broken(() => {
  let count = 0
  return ({ publish }) => ({
    publish: async (each) => (++count % 10 === 0 ? each.map(() => ({ status: "stored" })) : publish(each)),
  })
})

/** Gives each connection of a run a board of its own, as if all stored data were lost. */
const forgotten: Breaker = () => {
  let count = 0
  return (connect) => (options) => connect({ ...options, namespace: `${options.namespace}-${++count}` })
}

const alwaysFirst = deliveries((delivery) => ({ ...delivery, first: true }))

const lower = (posting: Posting): Posting => ({ ...posting, queue: posting.queue.toLowerCase() })

const LOST =
  "recovery: an answer that is lost in a cut is one about the item, with the outcome unknown; what is thrown was not tried"
const CALLS =
  "recovery: every call during a cut fails as unavailable within a bound; an empty answer would say that nothing is there"
const ANSWERS =
  "recovery: what a commit answers about a sudden end is true, and what it cannot say is done as a whole or can be repeated"
const MISSED = "recovery: who listens hears that news may have been missed in a cut, and what comes after it"

const SAID = "recovery: where an answer is lost on its way, what is said of the item is true, and it was tried once"

type Failed = Extract<Receipt | Committed, { readonly status: "failed" }>

const untried = <Answer extends Receipt | Committed>(answer: Answer): Answer | Failed =>
  answer.status === "failed"
    ? { status: "failed", error: new TransportError("unavailable", "nothing was done") }
    : answer

const twice = <Answer extends Receipt | Committed>(
  first: ReadonlyArray<Answer>,
  again: () => Promise<ReadonlyArray<Answer>>,
): ReadonlyArray<Answer> | Promise<ReadonlyArray<Answer>> =>
  first.some(({ status }) => status === "failed") ? again() : first

export const lifetimeMutants: ReadonlyArray<DriverMutant> = [
  {
    breaks: "hostile: ids may be any text up to 255 bytes",
    breaker: postings((posting) => ({ ...posting, id: posting.id.trim() || "-" })),
  },
  {
    breaks: "hostile: names of queues are apart, whatever they hold",
    breaker: breaking(({ publish, take }) => ({
      publish: (each) => publish(each.map(lower)),
      take: (request, signal) => take({ ...request, queues: request.queues.map((name) => name.toLowerCase()) }, signal),
    })),
  },
  {
    breaks: "hostile: queues of any name are counted and listed apart",
    breaker: breaking(({ waiting }) => ({
      waiting: async (what, max) =>
        "queue" in what && what.queue.includes("*") ? [] : ((await waiting?.(what, max)) ?? []),
    })),
  },
  {
    breaks: "hostile: filters find what holds any text",
    breaker: breaking(({ query }) => ({
      query: async (each) => (/[*%>]/.test(each.root ?? "") ? { jobs: [] } : ((await query?.(each)) ?? { jobs: [] })),
    })),
  },
  {
    breaks: "hostile: a publish key is not mistaken for that of another job",
    // Splits the publish key from the front, although an id may contain the separator.
    breaker: deduplicating(({ key }, seen) => {
      const own = key.split("/").slice(0, 3).join("/")
      return !seen.has(own) && seen.add(own).has(own)
    }),
  },
  {
    breaks: "hostile: a job is not mistaken for another one whose id begins or ends like its own",
    breaker: broken(() => {
      const ids = new Set<string>()
      return ({ publish, commit }) => ({
        publish: (each) => {
          for (const { id } of each) ids.add(id)
          return publish(each)
        },
        commit: async (each) => {
          const found = await commit(each)
          for (const { id, task } of each) {
            if (task?.kind !== "withdraw") continue
            const others = [...ids].filter((other) => other !== id && id.startsWith(other))
            await commit(others.map((other) => ({ id: other, task })))
          }
          return found
        },
      })
    }),
  },
  {
    breaks:
      "hostile: what is no message comes with its bytes, can be ended under another id, and its neighbours come too",
    breaker: breaking(({ take, commit }) => ({
      take: async (request, signal) => {
        const taken = await take(request, signal)
        const bad = taken.deliveries.filter((each) => idOf(each).startsWith("undecodable"))
        await commit(bad.map(({ token }) => ({ id: token, task: { kind: "ack", token } })))
        return { ...taken, deliveries: taken.deliveries.filter((each) => !bad.includes(each)) }
      },
    })),
  },
  {
    breaks: "close: closing twice is closing once",
    breaker: breaking(({ close }) => {
      let closed = false
      return {
        close: async () => {
          if (closed) throw new TransportError("closed", "closed already")
          closed = true
          await close()
        },
      }
    }),
  },
  { breaks: "close: closing ends a take that waits", breaker: lingering },
  { breaks: "close: afterwards every call fails as closed, and nothing is heard any more", breaker: lingering },
  {
    breaks: "close: afterwards every call fails as closed, and nothing is heard any more",
    // Keeps calling listeners after their connection was closed, also for what other connections publish.
    breaker: broken(() => {
      const listeners = new Set<Parameters<Driver["listen"]>[1]>()
      return ({ listen, publish }) => ({
        listen: async (interest, listener, signal) => {
          await listen(interest, listener, signal)
          listeners.add(listener)
        },
        publish: async (each) => {
          const receipts = await publish(each)
          for (const { queue } of each) for (const listener of listeners) listener({ kind: "queue", queue })
          return receipts
        },
      })
    }),
  },
  {
    breaks: "close: closing does not wait for what is in hand, which comes to others after its lease",
    breaker: closing(({ close }) => async () => {
      await sleep(4_000)
      await close()
    }),
  },
  {
    breaks: "close: closing one connection leaves the others alone",
    breaker: () => {
      const all: Array<Driver> = []
      return (connect) => async (options) => {
        const driver = await connect(options)
        all.push(driver)
        return { ...driver, close: async () => void (await Promise.all(all.map((each) => each.close()))) }
      }
    },
  },
  {
    breaks: "close: closing a driver of a client that the application holds leaves the client open",
    breaker: whole,
    harness: ({ connect }) => ({
      adopt: async (options) => {
        const driver = await connect(options)
        const isOpen = () => driver.store.now().then(Boolean, () => false)
        return { driver, isOpen }
      },
    }),
  },
  {
    breaks: "recovery: changes of the store are heard after a cut",
    on: "line",
    breaker: breaking(({ store, onStatus }) => {
      let died = false
      onStatus(() => {
        died = true
      })
      const { watch } = store
      if (watch === undefined) return {}
      const own: typeof watch = (prefix, listener, signal) =>
        watch(prefix, (change) => !died && listener(change), signal)
      return { store: { ...store, watch: own } }
    }),
  },
  {
    breaks: "recovery: tries to connect again wait as long as the application said, counted from 1",
    on: "line",
    breaker:
      () =>
      (connect) =>
      ({ reconnectDelay, ...options }) =>
        connect(options),
  },
  {
    breaks: "recovery: a connection without a sign of life is lost after one and a half heartbeats",
    on: "line",
    breaker: breaking(({ onStatus }) => ({
      onStatus: (listener) => onStatus((status) => void sleep(5_000).then(() => listener(status))),
    })),
  },
  {
    breaks: "recovery: with a heartbeat of 0, a connection that nothing is asked over is not lost by silence",
    on: "line",
    // Reports the connection as lost after a second, as if a heartbeat of 0 had been missed.
    breaker: breaking(({ onStatus }) => ({
      onStatus: (listener) => {
        void sleep(1_000).then(() => listener("disconnected"))
        return onStatus(listener)
      },
    })),
  },
  {
    breaks: LOST,
    on: "line",
    breaker: breaking(({ commit }) => ({
      commit: async (each) => {
        const found = await commit(each)
        for (const answer of found) if (answer.status === "failed") throw answer.error
        return found
      },
    })),
  },
  {
    breaks: LOST,
    on: "line",
    // Answers that nothing was tried, although it may have been stored.
    breaker: breaking(({ publish }) => ({
      publish: async (each) => {
        const found = await publish(each)
        return found.map((receipt) =>
          receipt.status === "failed"
            ? { status: "failed", error: new TransportError("unavailable", "nothing was done") }
            : receipt,
        )
      },
    })),
  },
  { breaks: "recovery: what was stored outlives all connections", on: "line", breaker: forgotten },
  {
    breaks: "recovery: a task that was in hand when all connections ended comes again, with a higher fence",
    on: "line",
    breaker: alwaysFirst,
  },
  {
    breaks: "recovery: a task that is in hand during a sudden end comes again, with a higher fence",
    on: "line",
    breaker: alwaysFirst,
  },
  {
    breaks: "recovery: what was removed from the store stays away after a sudden end",
    on: "line",
    // Removals are answered, and not stored.
    breaker: breaking(({ store }) => ({
      store: {
        ...store,
        write: async (operations) => {
          const revisions = await store.write(operations.filter(({ value }) => value !== null))
          if (revisions === "conflict") return revisions
          const left = [...revisions]
          return operations.map(({ value }) => (value === null ? "" : (left.shift() ?? "")))
        },
      },
    })),
  },
  {
    breaks: "recovery: a restart while publishing and while consuming loses nothing that was stored",
    on: "line",
    breaker: leaking,
  },
  {
    breaks: "recovery: a sudden end while publishing and while consuming loses nothing that was stored",
    on: "line",
    breaker: leaking,
  },
  { breaks: ANSWERS, on: "line", breaker: inSteps(3) },
  {
    breaks: ANSWERS,
    on: "line",
    // Answers `committed` where the answer of the broker was lost.
    breaker: breaking(({ commit }) => ({
      commit: (each) => commit(each).catch(() => each.map(() => ({ status: "committed", revision: "1" }))),
    })),
  },
  {
    breaks: ANSWERS,
    on: "line",
    // Answers that nothing was done, although the commit was done.
    breaker: answers((answer) =>
      answer.status === "committed"
        ? { status: "failed", error: new TransportError("unavailable", "nothing was done", { outcome: "none" }) }
        : answer,
    ),
  },
  {
    breaks: SAID,
    on: "line",
    // Counts a lost answer as nothing done.
    breaker: breaking(({ publish, commit }) => ({
      publish: async (each) => (await publish(each)).map(untried),
      commit: async (each) => (await commit(each)).map(untried),
    })),
  },
  {
    breaks: SAID,
    on: "line",
    breaker: breaking(({ store }) => ({
      store: {
        ...store,
        write: (each) =>
          store.write(each).catch(() => Promise.reject(new TransportError("unavailable", "nothing was done"))),
      },
    })),
  },
  ...(["publish", "commit", "write"] as const).map(
    (what): DriverMutant => ({
      breaks: SAID,
      on: "line",
      // Sends the request again where its answer is lost.
      breaker: breaking(({ publish, commit, store }) => {
        if (what === "write")
          return { store: { ...store, write: (each) => store.write(each).catch(() => store.write(each)) } }
        if (what === "publish") return { publish: async (each) => twice(await publish(each), () => publish(each)) }
        return { commit: async (each) => twice(await commit(each), () => commit(each)) }
      }),
    }),
  ),
  {
    breaks: "recovery: connecting during a cut fails as unavailable within its timeout",
    on: "line",
    breaker: () => (connect) => async (options) => {
      for (;;) {
        const driver = await connect(options).catch(() => undefined)
        if (driver !== undefined) return driver
        await sleep(200)
      }
    },
  },
  {
    breaks: "recovery: a take that waits through a cut, or the next one, brings what comes afterwards",
    on: "line",
    // Never works again after its first failure.
    breaker: breaking(({ take }) => {
      let failed = false
      return {
        take: async (request, signal) => {
          if (failed) return { deliveries: [] }
          try {
            return await take(request, signal)
          } catch (error) {
            failed = true
            throw error
          }
        },
      }
    }),
  },
  {
    breaks: CALLS,
    on: "line",
    // Answers that nothing is due although the broker could not be asked.
    breaker: breaking(({ take }) => ({
      take: (request, signal) => take(request, signal).catch(() => ({ deliveries: [] })),
    })),
  },
  {
    breaks: CALLS,
    on: "line",
    // Repeats a call without a time limit until it is answered.
    breaker: breaking(({ read }) => ({
      read: async (ids, what) => {
        for (;;) {
          const found = await read(ids, what).catch(() => undefined)
          if (found !== undefined) return found
          await sleep(100)
        }
      },
    })),
  },
  {
    breaks: CALLS,
    on: "line",
    breaker: breaking(({ publish }) => ({
      publish: (each) => publish(each).catch((error) => Promise.reject(new TransportError("internal", String(error)))),
    })),
  },
  {
    breaks: "recovery: every call works again after a cut, within a bound, and what failed is stored once",
    on: "line",
    // One method keeps using the connection that died.
    breaker: breaking(({ onStatus, commit }) => {
      let died = false
      onStatus(() => {
        died = true
      })
      const dead = () => Promise.reject(new TransportError("unavailable", "this connection died"))
      return { commit: (each) => (died ? dead() : commit(each)) }
    }),
  },
  {
    breaks: MISSED,
    on: "line",
    breaker: breaking(({ listen }) => ({
      listen: (interest, listener, signal) =>
        listen(interest, (news) => news.kind !== "missed" && listener(news), signal),
    })),
  },
  {
    breaks: MISSED,
    on: "line",
    // Does not listen again on the new connection.
    breaker: breaking(({ listen, onStatus }) => {
      let died = false
      onStatus(() => {
        died = true
      })
      return {
        listen: (interest, listener, signal) =>
          listen(interest, (news) => (news.kind === "missed" || !died) && listener(news), signal),
      }
    }),
  },
  {
    breaks: "recovery: announcements are heard after a cut",
    on: "line",
    breaker: breaking(({ broadcast, onStatus }) => {
      let died = false
      onStatus(() => {
        died = true
      })
      if (broadcast === undefined) return {}
      const { listen } = broadcast
      return {
        broadcast: {
          ...broadcast,
          listen: (topic, listener, signal) => listen(topic, (payload) => !died && listener(payload), signal),
        },
      }
    }),
  },
  {
    breaks: "recovery: a connection that dies leaves no error that nobody catches",
    on: "line",
    breaker: breaking(({ onStatus }) => {
      onStatus((status) => {
        if (status === "disconnected") void Promise.reject(new Error("the socket was closed"))
      })
      return {}
    }),
  },
  {
    breaks: "recovery: a scheduled task, a record and a stored value outlive a restart",
    on: "line",
    breaker: forgotten,
  },
  {
    breaks: "recovery: who listens to the status hears of a cut and of its end, once each",
    on: "line",
    breaker: breaking(({ onStatus }) => ({
      onStatus: (listener) =>
        onStatus((status) => {
          listener(status)
          listener(status)
        }),
    })),
  },
]
