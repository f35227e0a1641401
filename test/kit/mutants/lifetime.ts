/** Mutants of hostile input, of closing and of recovery. */
import type { Transport } from "../../../runtime/transport/job-store/transport.ts"
import { jobsBroken, type Mutant, transportBroken } from "./mutant.ts"

const closing = (close: (transport: Transport) => () => Promise<void>): Mutant["breaker"] =>
  transportBroken(() => (transport) => ({ ...transport, close: close(transport) }))

/** Closes a while after `close` has resolved. */
const lingering = closing((transport) => async () => {
  setTimeout(() => void transport.close(), 3_000)
})

/** Reports every tenth publish as stored without storing it. */
const leaking = jobsBroken(() => {
  let count = 0
  return (jobs) => ({
    publish: async (postings) =>
      ++count % 10 === 0 ? postings.map(() => ({ status: "stored" })) : jobs.publish(postings),
  })
})

export const lifetimeMutants: ReadonlyArray<Mutant> = [
  {
    breaks: "hostile: ids may be any text up to 255 bytes",
    breaker: jobsBroken(() => (jobs) => ({
      publish: (postings) => jobs.publish(postings.map((posting) => ({ ...posting, id: posting.id.trim() || "-" }))),
    })),
  },
  {
    breaks: "hostile: filters are taken literally",
    breaker: jobsBroken(() => (jobs) => ({
      list: ({ rootId, ...query }) =>
        jobs.list(rootId === undefined || /[*%>]/.test(rootId) ? query : { ...query, rootId }),
    })),
  },
  {
    breaks: "hostile: a successor is told from other postings, whatever the id holds",
    breaker: jobsBroken(() => (jobs) => ({
      claim: async (claims) =>
        (await jobs.claim(claims)).map((answer, at) => {
          const successor = answer.status === "started" ? answer.record?.successor : undefined
          // Splits the publish key from the front, although an id may contain the separator.
          const wrong = successor !== undefined && successor.split("/")[1] !== String(claims[at]?.run)
          return wrong ? { status: "superseded" } : answer
        }),
    })),
  },
  {
    breaks: "hostile: what is no message comes as undecodable with its bytes, and its neighbours come too",
    breaker: jobsBroken(() => (jobs) => ({
      take: async (request, signal) => {
        const found = await jobs.take(request, signal)
        const bad = found.filter(({ message }) => "undecodable" in message)
        if (bad.length === 0) return found
        await jobs.settle(bad.map(({ token }) => ({ token, then: { kind: "ack" } })))
        return found.filter((delivery) => !bad.includes(delivery))
      },
    })),
  },
  { breaks: "close: closing ends a take that waits", breaker: lingering },
  { breaks: "close: afterwards every call fails as closed", breaker: lingering },
  {
    breaks: "recovery: a take that waits through a cut, or the next one, brings what comes afterwards",
    on: "line",
    // Never works again after its first failure.
    breaker: jobsBroken(() => {
      let broken = false
      return (jobs) => ({
        take: (request, signal) =>
          broken
            ? Promise.resolve([])
            : jobs.take(request, signal).catch((error: unknown) => {
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
]
