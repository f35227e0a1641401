/** The least driver with lists, depths and broadcast over the same board. Its store cannot be watched. */
import type { Driver } from "../../../runtime/transport/driver.ts"
import type { Index } from "../../../runtime/transport/known.ts"
import { type ConnectOptions, TransportError } from "../../../runtime/transport/mod.ts"
import type { Broadcast, FoundJob, Queries, Query, QueueBrowser } from "../../../runtime/transport/optional.ts"
import { isHeld, type LeastBoard, type LeastOptions, leastDriver } from "./least-driver.ts"

export const wholeDriver = (
  board: LeastBoard,
  options: Pick<ConnectOptions, "lease">,
  extra: LeastOptions = {},
): Driver => {
  const min = leastDriver(board, options, extra)
  const closing = new AbortController()
  const guard = () => {
    if (closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
  }
  return {
    ...min,
    ...queriesOf(board, min, guard),
    count: async (state, queue) => {
      guard()
      const isCounted = ({ index }: { readonly index: Index }): boolean =>
        index.state === state && !index.hidden && (queue === undefined || index.queue === queue)
      return [...board.records.values()].filter(isCounted).length
    },
    ...browserOf(board, guard),
    broadcast: broadcastOf(board, guard, closing.signal),
    close: async () => {
      closing.abort()
      await min.close()
    },
  }
}

/** Lists jobs newest first, by submission. A cursor is the number that a job got at its first appearance. */
const queriesOf = (board: LeastBoard, min: Driver, guard: () => void): Queries => ({
  query: async (query) => {
    guard()
    const after = query.after === undefined ? Number.POSITIVE_INFINITY : Number(query.after)
    if (Number.isNaN(after)) throw new TransportError("invalid", "not a cursor of this transport")
    const jobs: Array<FoundJob> = []
    let last = 0
    for (const [id, number] of [...board.jobs].reverse()) {
      if (number >= after) continue
      const [known] = await min.read([id], "all")
      if (known === undefined || !fits(board, id, query)) continue
      if (jobs.length === query.limit) return { jobs, next: String(last) }
      jobs.push({ ...known, id })
      last = number
    }
    return { jobs }
  },
})

const fits = (board: LeastBoard, id: string, query: Query): boolean => {
  const index = board.records.get(id)?.index ?? [...board.tasks].find(({ posting }) => posting.id === id)?.index
  if (index === undefined) return true
  const { states, dead, queue, task, root, parent, group, since = 0, until = Number.POSITIVE_INFINITY } = query
  const waits = index.state === "queued" || index.state === "scheduled"
  const isIn = states === undefined || states.includes(index.state) || (waits && !states.every(isEnd))
  return (
    !index.hidden &&
    isIn &&
    (!dead || index.dead === true) &&
    (queue === undefined || index.queue === queue) &&
    (task === undefined || index.task === task || `${index.task}.${index.method ?? ""}` === task) &&
    (root === undefined || index.root === root) &&
    (parent === undefined || index.parent === parent) &&
    (group === undefined || index.group === group) &&
    index.at >= since &&
    index.at < until
  )
}

const isEnd = (state: string): boolean => ["succeeded", "failed", "cancelled", "expired"].includes(state)

const browserOf = (board: LeastBoard, guard: () => void): QueueBrowser => ({
  queues: async () => {
    guard()
    const now = Date.now()
    return [...new Set([...board.tasks].map(({ posting }) => posting.queue))].map((queue) => {
      const tasks = [...board.tasks].filter(({ posting }) => posting.queue === queue)
      const ready = tasks.filter(({ until }) => until <= now)
      const held = tasks.filter(isHeld).length
      const oldest = ready.length === 0 ? {} : { oldest: Math.min(...ready.map(({ index, at }) => index?.at ?? at)) }
      return { queue, ready: ready.length, scheduled: tasks.length - ready.length - held, held, ...oldest }
    })
  },
  waiting: async (what, max) => {
    guard()
    const now = Date.now()
    const free = [...board.tasks].filter((task) => !isHeld(task) && !task.posting.id.startsWith("injected-"))
    const found =
      "queue" in what
        ? free
            .filter(({ posting }) => posting.queue === what.queue)
            .sort(
              (a, b) =>
                Math.max(0, a.until - now) - Math.max(0, b.until - now) ||
                b.posting.level - a.posting.level ||
                a.sequence - b.sequence,
            )
        : free
            .filter(({ posting }) => (posting.expires ?? Number.POSITIVE_INFINITY) <= what.expiredBy)
            .sort((a, b) => (a.posting.expires ?? 0) - (b.posting.expires ?? 0))
    return found.slice(0, max).map(({ posting }) => posting.id)
  },
})

const TOPIC = /^[a-z0-9.-]{1,128}$/

const broadcastOf = (board: LeastBoard, guard: () => void, closing: AbortSignal): Broadcast => {
  const check = (topic: string) => {
    guard()
    if (!TOPIC.test(topic)) throw new TransportError("invalid", `not a topic: ${JSON.stringify(topic.slice(0, 128))}`)
  }
  return {
    send: async (topic, payload) => {
      check(topic)
      for (const each of board.hearers) {
        if (each.topic !== topic) continue
        const copy = payload.slice()
        queueMicrotask(() => each.listener(copy))
      }
    },
    listen: async (topic, listener, signal) => {
      check(topic)
      if (signal.aborted) return
      const hearer = { topic, listener }
      board.hearers.add(hearer)
      const stop = () => board.hearers.delete(hearer)
      AbortSignal.any([signal, closing]).addEventListener("abort", stop, { once: true })
    },
  }
}
