/** Mutants of input from strangers, of closing and of recovery. */
import type { Posting } from "../../../runtime/protocol/message.ts"
import type { Transport } from "../../../runtime/transport/lift/transport.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { sleep } from "../context.ts"
import { type Mutant, queueBroken, recordsBroken, transportBroken } from "./mutant.ts"

const closing = (close: (transport: Transport) => () => Promise<void>): Mutant["breaker"] =>
  transportBroken(() => (transport) => ({ ...transport, close: close(transport) }))

/** Closed a good while after it was said to be. */
const lingering = closing((transport) => async () => {
  setTimeout(() => void transport.close(), 3_000)
})

/** Every tenth publish is said to be stored, and is not. */
const leaking = queueBroken(() => {
  let count = 0
  return (queue) => ({
    publish: async (postings) =>
      ++count % 10 === 0 ? postings.map(() => ({ status: "stored" })) : queue.publish(postings),
  })
})

/** The second connection of a run finds another board. */
const forgotten: Mutant["breaker"] = () => {
  let count = 0
  return (connect) => (options) => connect({ ...options, namespace: `${options.namespace}-${++count}` })
}

const alwaysFresh = queueBroken(() => (queue) => ({
  pull: async (request, signal) =>
    (await queue.pull(request, signal)).map((delivery) => ({ ...delivery, fresh: true })),
}))

const lower = (posting: Posting): Posting => ({ ...posting, queue: posting.queue.toLowerCase() })

export const lifetimeMutants: ReadonlyArray<Mutant> = [
  {
    breaks: "hostile: ids may be any text up to 255 bytes",
    breaker: queueBroken(() => (queue) => ({
      publish: (postings) => queue.publish(postings.map((posting) => ({ ...posting, id: posting.id.trim() || "-" }))),
    })),
  },
  {
    breaks: "hostile: names of queues are apart, whatever they hold",
    breaker: queueBroken(() => (queue) => ({
      publish: (postings) => queue.publish(postings.map(lower)),
      pull: (request, signal) =>
        queue.pull({ ...request, queues: request.queues.map((name) => name.toLowerCase()) }, signal),
    })),
  },
  {
    breaks: "hostile: queues of any name are counted and emptied apart",
    breaker: queueBroken(() => (queue) => ({
      waiting: async (name, max) => (name.includes("*") ? [] : ((await queue.waiting?.(name, max)) ?? [])),
    })),
  },
  {
    breaks: "hostile: filters are taken literally",
    breaker: recordsBroken(() => (records) => ({
      query: ({ rootId, ...query }) =>
        records.query(rootId === undefined || /[*%>]/.test(rootId) ? query : { ...query, rootId }),
    })),
  },
  {
    breaks: "hostile: a publish key is not mistaken for that of another job",
    breaker: queueBroken(() => {
      const seen = new Set<string>()
      return (queue) => ({
        publish: (postings) =>
          Promise.all(
            postings.map(async (posting) => {
              const key = `${posting.id}/${posting.run}/${posting.retries}`
              if (seen.has(key)) return { status: "duplicate" as const }
              seen.add(key)
              return (await queue.publish([posting]))[0] ?? { status: "stored" as const }
            }),
          ),
      })
    }),
  },
  {
    breaks: "hostile: a successor is told from other postings, whatever the id holds",
    breaker: queueBroken(() => (queue) => ({
      claim: async (claims) =>
        (await queue.claim(claims)).map((answer, at) => {
          const successor = answer.status === "claimed" ? answer.record?.successor : undefined
          // The key is read from the front, where the id may hold anything.
          const wrong = successor !== undefined && successor.split("/")[1] !== String(claims[at]?.run)
          return wrong ? { status: "superseded" } : answer
        }),
    })),
  },
  {
    breaks: "hostile: what is no message comes as undecodable with its bytes, and its neighbours come too",
    breaker: queueBroken(() => (queue) => ({
      pull: async (request, signal) => {
        const found = await queue.pull(request, signal)
        const bad = found.filter(({ message }) => "undecodable" in message)
        if (bad.length === 0) return found
        await queue.settle(bad.map(({ token }) => ({ token, then: { kind: "ack" } })))
        return found.filter((delivery) => !bad.includes(delivery))
      },
    })),
  },
  {
    breaks: "close: closing twice is closing once",
    breaker: transportBroken(() => (transport) => {
      let closed = false
      return {
        ...transport,
        close: async () => {
          if (closed) throw new TransportError("closed", "closed already")
          closed = true
          await transport.close()
        },
      }
    }),
  },
  { breaks: "close: closing ends a pull that waits", breaker: lingering },
  { breaks: "close: afterwards every call fails as closed", breaker: lingering },
  {
    breaks: "close: closing does not wait for what is in hand, which comes to others after its lease",
    breaker: closing((transport) => async () => {
      await sleep(1_500)
      await transport.close()
    }),
  },
  {
    breaks: "close: closing one connection leaves the others alone",
    breaker: () => {
      const all: Array<Transport> = []
      return (connect) => async (options) => {
        const transport = await connect(options)
        all.push(transport)
        return { ...transport, close: async () => void (await Promise.all(all.map((each) => each.close()))) }
      }
    },
  },
  { breaks: "recovery: what was stored outlives all connections", on: "line", breaker: forgotten },
  {
    breaks: "recovery: a task that was in hand when all connections ended comes again, with a higher fence",
    on: "line",
    breaker: alwaysFresh,
  },
  {
    breaks: "recovery: a task that is in hand during a sudden end comes again, with a higher fence",
    on: "line",
    breaker: alwaysFresh,
  },
  {
    breaks: "recovery: connecting during a cut fails as unavailable within its timeout",
    on: "line",
    breaker: () => (connect) => async (options) => {
      for (;;) {
        const transport = await connect(options).catch(() => undefined)
        if (transport !== undefined) return transport
        await sleep(200)
      }
    },
  },
  {
    breaks: "recovery: a pull that waits through a cut, or the next one, brings what comes afterwards",
    on: "line",
    // Once it has failed, it never recovers.
    breaker: queueBroken(() => {
      let broken = false
      return (queue) => ({
        pull: (request, signal) =>
          broken
            ? Promise.resolve([])
            : queue.pull(request, signal).catch((error: unknown) => {
                broken = true
                throw error
              }),
      })
    }),
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
  {
    breaks: "recovery: a scheduled task, a record and a stored value outlive a restart",
    on: "line",
    breaker: forgotten,
  },
  {
    breaks: "recovery: calls during a cut fail as unavailable within a bound, and work again afterwards",
    on: "line",
    breaker: queueBroken(() => (queue) => ({
      publish: async (postings) => {
        try {
          return await queue.publish(postings)
        } catch (error) {
          throw new TransportError("internal", String(error))
        }
      },
    })),
  },
  {
    breaks: "recovery: who listens to the status hears of a cut and of its end, once each",
    on: "line",
    breaker: transportBroken(() => (transport) => ({
      ...transport,
      onStatus: (listener) =>
        transport.onStatus((status) => {
          listener(status)
          listener(status)
        }),
    })),
  },
]
