/**
 * Joins a transport that keeps only queues (the broker) with another that keeps records, the store and due times (the
 * record store). The result is a driver like any other. A task that may start at once is stored in both:
 *
 * - in the record store it is **parked**: under its own id, with a due time far in the future. So the job is found, listed,
 *   deduplicated and withdrawn as usual. The commit that ends its delivery also withdraws it.
 * - in a queue of the broker, from which workers take it.
 *
 * Before the task is sent to the broker, the record store also stores a **guard**: a copy of it that is due in a few seconds,
 * and is withdrawn once the broker has confirmed the task. If the process dies in between, or the broker cannot be
 * reached, the guard falls due and the record store delivers the task. If the broker has the task all the same, its copy is
 * delivered too, and finds that the job is claimed or over. A task that a worker puts off gets such a copy as well: its
 * parked task stays, so that nothing else which happens to the job meanwhile is undone. Scheduled tasks are delivered by
 * the record store alone.
 */
import { postingOf } from "../../protocol/headers.ts"
import { isUndecodable, type Message } from "../../protocol/message.ts"
import { toProtocol2 } from "../../protocol/protocol1.ts"
import { isTerminal } from "../../protocol/state.ts"
import type {
  Capabilities,
  Commit,
  Committed,
  Delivery,
  Driver,
  Posting,
  QueueDriver,
  TakeRequest,
  TaskEnd,
} from "../driver.ts"
import type { Known } from "../known.ts"
import { checkCommit, checkPosting, TransportError } from "../mod.ts"
import { answerTogether, tooFewAnswers } from "../plain-driver.ts"
import { type Order, orderOfMessage } from "./attempt.ts"
import { decodeContent, decodeStored, toPosting } from "./codec.ts"
import { hash } from "./hash.ts"
import { takeOnNews } from "./take.ts"

/** Due time of parked tasks, in milliseconds since the epoch. No other task is due so late. */
const PARKED = Date.UTC(2100)

/** How long the broker has to confirm a task before the record store delivers it, in milliseconds. */
const GUARD_MS = 10_000

/** The ids and queues of guards begin with this character, which those of jobs never do. */
const GUARD = "\u0001"

/** How long the difference to the record store's clock is kept before it is measured again, in milliseconds. */
const CLOCK_MS = 60_000

/** First letter of a token: whether the broker delivered the task, or the record store, and then whether as a guard. */
const QUEUE = "q"
const GUARDED = "g"
const HOME = "h"

const DURABILITIES = ["none", "process", "server", "fsync", "quorum"] as const
const REACHES = ["process", "host", "network"] as const

const weaker = <T>(order: ReadonlyArray<T>, a: T, b: T): T => (order.indexOf(a) < order.indexOf(b) ? a : b)

export const splitCapabilities = (queue: Capabilities, records: Capabilities): Capabilities => ({
  ...records,
  durability: weaker(DURABILITIES, queue.durability, records.durability),
  reach: weaker(REACHES, queue.reach, records.reach),
  waits: true,
  bands: Math.min(queue.bands, records.bands),
  front: queue.front && records.front,
  maxTask: Math.min(queue.maxTask, records.maxTask),
  leaseResolution: Math.max(queue.leaseResolution, records.leaseResolution),
  leases: "connection",
})

const guardId = ({ key }: Pick<Posting, "key">): string => GUARD + hash(key)
const guardQueue = (queue: string): string => GUARD + hash(queue)

/** A hidden copy of a parked task, which the record store delivers at `due`. The task itself says when it expires. */
const copyOf = ({ expires: _expires, ...posting }: Posting, id: string, due: number): Posting => ({
  ...posting,
  id,
  key: id,
  queue: guardQueue(posting.queue),
  due,
  index: { ...posting.index, hidden: true },
})

const isScheduled = ({ due = 0 }: Posting, now: number): boolean => due > now

/**
 * The time of the record store, by which it delivers what is due, and fences made of it. Fences rise over all deliveries of this process,
 * and over the deliveries of all processes as far as their measurements of that time agree.
 */
const recordsClock = async (records: Driver) => {
  let offset = 0
  let asked = Number.NEGATIVE_INFINITY
  let last = 0
  const ask = async (): Promise<void> => {
    asked = performance.now()
    offset = (await records.store.now()) - performance.now()
  }
  await ask()
  const precise = (): number => {
    if (performance.now() - asked > CLOCK_MS) void ask().catch(() => undefined)
    return offset + performance.now()
  }
  return {
    now: (): number => Math.round(precise()),
    nextFence: (): string => {
      last = Math.max(last + 1, Math.floor(precise() * 1_000))
      return String(last).padStart(17, "0")
    },
  }
}

/** A delivery of the broker, or of a copy in the record store. */
interface Held {
  readonly id: string
  readonly message: Message
  readonly queue: string
  /** Callboard published the task, so the record store has it too until it is withdrawn or has ended. */
  readonly isOurs: boolean
}

/** A commit, the commit that the record store gets in its place, and how the delivery ends afterwards. */
interface Planned {
  readonly commit: Commit
  /** Absent where nothing changes in the record store. */
  readonly records?: Commit
  readonly end?: Exclude<TaskEnd, { readonly kind: "withdraw" }>
}

/** Joins both drivers. Fails with `unsupported` where the record store cannot keep a task until `PARKED`. */
export const split = async (queue: QueueDriver, records: Driver, guardMs = GUARD_MS): Promise<Driver> => {
  if (records.capabilities.delay < PARKED - Date.now()) {
    throw new TransportError(
      "unsupported",
      `${records.name} does not keep tasks long enough to store the records of ${queue.name}`,
    )
  }
  const closing = new AbortController()
  const capabilities = splitCapabilities(queue.capabilities, records.capabilities)
  const { now: recordsNow, nextFence } = await recordsClock(records)
  const held = new Map<string, Held>()
  queue.onStatus((status) => {
    if (status === "disconnected") for (const token of held.keys()) if (token.startsWith(QUEUE)) held.delete(token)
  })

  /**
   * The tasks that the record store stores for postings: for one that may start at once its guard and the parked task. Where no
   * duplicate is stored, a guard that is there already must not count as one.
   */
  const stored = (postings: ReadonlyArray<Posting>, now: number, unique = false): ReadonlyArray<Posting> =>
    postings.flatMap((posting) => {
      if (isScheduled(posting, now)) return [posting]
      const guard = copyOf(posting, guardId(posting), now + guardMs)
      return [unique ? { ...guard, key: `${guard.id}/${nextFence()}` } : guard, { ...posting, due: PARKED }]
    })

  const withdrawGuards = async (postings: ReadonlyArray<Posting>): Promise<void> => {
    const guards = [...new Set(postings.map(guardId))]
    await records.commit(guards.map((id) => ({ id, task: { kind: "withdraw" } }))).catch(() => undefined)
  }

  /** Publishes tasks that the record store has stored, and withdraws the guards of the ones that the broker has confirmed. */
  const send = async (postings: ReadonlyArray<Posting>): Promise<void> => {
    if (postings.length === 0) return
    const receipts = await queue.publish(postings).catch(() => [])
    await withdrawGuards(postings.filter((_, at) => receipts[at]?.status === "stored"))
  }

  const publishChecked = async (given: ReadonlyArray<Posting>) => {
    const now = recordsNow()
    // The broker gets the messages later than the record store does, and the caller may change its own meanwhile.
    const postings = given.map((posting) => ({ ...posting, message: structuredClone(posting.message) }))
    const tasks = postings.map((posting) => stored([posting], now))
    const receipts = (await records.publish(tasks.flat())).values()
    const answers = tasks.map((each) => each.map(() => receipts.next().value ?? tooFew()))
    // The last task that is stored for a posting is the task itself.
    const own = answers.map((each) => each.at(-1) ?? tooFew())
    // The guard of a task that was there before is not needed, unless it was there before as well.
    const needless = postings.filter((_, at) => {
      const [guard, task] = answers[at] ?? []
      return guard?.status === "stored" && task?.status === "duplicate"
    })
    if (needless.length > 0) await withdrawGuards(needless)
    await send(postings.filter((posting, each) => own[each]?.status === "stored" && !isScheduled(posting, now)))
    return own
  }

  /**
   * The order of each job's newest task in the record store; `""` where there is none. `undefined` where there is none although the
   * record says that the job goes on: a record store that is not atomic may have lost it between two steps.
   */
  const newestOf = async (jobs: ReadonlyArray<{ readonly id: string }>): Promise<ReadonlyArray<Order | undefined>> => {
    const known =
      jobs.length === 0
        ? []
        : await records.read(
            jobs.map(({ id }) => id),
            "all",
          )
    return known.map((each) =>
      each?.task !== undefined ? orderOfMessage(decodeContent(each.task.content)) : goesOn(each) ? undefined : "",
    )
  }

  const isNewest = async (mine: Held): Promise<boolean> => (await newestOf([mine]))[0] === orderOfMessage(mine.message)

  // ── Taking ────────────────────────────────────────────────────────────────────────────────────────────────────────

  const hold = (delivery: Delivery, from: string, of: string): Delivery => {
    const token = from + delivery.token
    const content = from === HOME ? undefined : decodeContent(delivery.content)
    // A message of Celery's protocol 1 has its id in the body.
    const read = content === undefined || isUndecodable(content) ? undefined : toProtocol2(content)
    const message = read?._tag === "Success" ? read.success : content
    const id = message === undefined || isUndecodable(message) ? undefined : message.headers["id"]
    if (message !== undefined && !isUndecodable(message) && typeof id === "string" && id !== "") {
      held.set(token, { id, message, queue: of, isOurs: from === GUARDED || delivery.sequence > 0 })
    }
    const external = from === GUARDED || (from === QUEUE && delivery.sequence === 0)
    return { ...delivery, token, queue: of, first: false, external, fence: nextFence() }
  }

  /** Drops deliveries of tasks of Callboard that the record store does not have any more: they were withdrawn, or have ended. */
  const withoutOver = async (came: ReadonlyArray<Delivery>): Promise<ReadonlyArray<Delivery>> => {
    const ours = came.filter(({ token }) => held.get(token)?.isOurs)
    const newest = await newestOf(ours.flatMap(({ token }) => held.get(token) ?? []))
    const over = ours.filter((_, at) => newest[at] === "")
    await Promise.all(over.map(({ token }) => endDelivery({ kind: "ack", token })))
    return over.length === 0 ? came : came.filter((delivery) => !over.includes(delivery))
  }

  const takeQueue = async (request: TakeRequest, signal: AbortSignal): Promise<ReadonlyArray<Delivery>> => {
    const { deliveries } = await queue.take(request, signal)
    return withoutOver(deliveries.map((delivery) => hold(delivery, QUEUE, delivery.queue)))
  }

  const takeHome = async (request: TakeRequest, signal: AbortSignal): Promise<ReadonlyArray<Delivery>> => {
    const guards = new Map(request.queues.map((name) => [guardQueue(name), name]))
    const whole = { ...request, queues: [...request.queues, ...guards.keys()] }
    const deliveries =
      records.capabilities.waits || request.wait <= 0
        ? (await records.take(whole, signal)).deliveries
        : await takeOnNews(records, whole, signal)
    const came = deliveries.map((delivery) => {
      const of = guards.get(delivery.queue)
      return hold(delivery, of === undefined ? HOME : GUARDED, of ?? delivery.queue)
    })
    return withoutOver(came)
  }

  const handBack = (deliveries: ReadonlyArray<Delivery>) =>
    commit(deliveries.map(({ token }) => ({ id: GUARD + token, task: { kind: "hand-back", token, delay: 0 } })))

  /** Joins what both drivers have delivered to one answer, and gives back what exceeds `max`. */
  const together = async (
    { queues, max, rotate }: TakeRequest,
    deliveries: ReadonlyArray<Delivery>,
    signal: AbortSignal,
  ) => {
    const placeOf = new Map(queues.map((name, at) => [name, at]))
    const sorted = rotate
      ? deliveries
      : deliveries.toSorted((a, b) => (placeOf.get(a.queue) ?? 0) - (placeOf.get(b.queue) ?? 0) || b.level - a.level)
    const kept = signal.aborted ? 0 : max
    if (sorted.length > kept) await handBack(sorted.slice(kept))
    return { deliveries: sorted.slice(0, kept) }
  }

  const take: Driver["take"] = async (request, signal) => {
    if (signal.aborted) return { deliveries: [] }
    const found = [...(await takeHome({ ...request, wait: 0 }, signal))]
    const max = request.max - found.length
    if (max > 0) {
      // Where the record store has delivered tasks, an error of the broker does not lose them.
      const failed = (cause: unknown) => (found.length > 0 ? [] : Promise.reject(cause))
      found.push(...(await takeQueue({ ...request, max, wait: 0 }, signal).catch(failed)))
    }
    if (found.length > 0 || request.wait <= 0) return together(request, found, signal)
    const one = new AbortController()
    const ending = AbortSignal.any([signal, closing.signal, one.signal])
    const both = [takeHome(request, ending), takeQueue(request, ending)]
    await Promise.race(both.map((each) => each.catch(() => undefined)))
    one.abort()
    const came = await Promise.allSettled(both)
    for (const each of came) if (each.status === "fulfilled") found.push(...each.value)
    for (const each of came) if (each.status === "rejected" && found.length === 0) throw each.reason
    return together(request, found, signal)
  }

  // ── Commits ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * The posting by which the record store delivers a task that is put off: a copy where the record store has a task of the job, which is
   * that task or a later one. `undefined` where nothing is to come again: the message is no task, or it was withdrawn.
   */
  const postpone = async (
    mine: Held,
    { token, delay }: Extract<TaskEnd, { readonly kind: "hand-back" }>,
  ): Promise<Posting | undefined> => {
    const posting = postingOf(mine.message, mine.queue)
    const [newest] = await newestOf([mine])
    if (posting._tag === "Failure" || (newest === "" && mine.isOurs)) return undefined
    const now = recordsNow()
    const made = toPosting(posting.success, now)
    // The same each time that it is tried, so that it is stored once.
    const key = `${made.key}/${token}`
    return newest === "" ? { ...made, key, due: now + delay } : copyOf(made, guardId({ key }), now + delay)
  }

  const plan = async (commit: Commit, now: number): Promise<Planned> => {
    const { task, post, ...rest } = commit
    const asked: Commit = post === undefined ? rest : { ...rest, post: stored(post, now, commit.unique) }
    if (task === undefined || task.kind === "withdraw") return { commit, records: task ? { ...asked, task } : asked }
    const { token } = task
    if (token.startsWith(HOME)) {
      // A record store that is not atomic may have kept a task of an earlier attempt.
      if (!records.capabilities.atomic && task.kind === "ack" && rest.record !== undefined)
        return { commit, records: { ...asked, task: { kind: "withdraw" } }, end: task }
      return { commit, records: { ...asked, task: { ...task, token: token.slice(1) } } }
    }
    const mine = held.get(token)
    const withdrawing: Commit = { ...asked, task: { kind: "withdraw" } }
    const unchanged: Planned = { commit, ...(post || rest.record ? { records: asked } : {}), end: task }
    if (task.kind === "ack") {
      // After an outage the delivery is no longer known here. A commit with a record ends the task all the same.
      const isToken = token.startsWith(QUEUE) || token.startsWith(GUARDED)
      const isOver = isToken && rest.record !== undefined && (mine === undefined || mine.id === commit.id)
      return isOver || (mine?.id === commit.id && (await isNewest(mine)))
        ? { commit, records: withdrawing, end: task }
        : unchanged
    }
    if (token.startsWith(GUARDED) || task.delay <= 0) return unchanged
    // Where the broker cannot be asked it gives the task back itself.
    const [isMine] = await queue.extend([token.slice(1)]).catch(() => [])
    const later = isMine && mine !== undefined ? await postpone(mine, task) : undefined
    if (later === undefined) return { ...unchanged, end: { ...task, delay: 0 } }
    // A task of another system may be larger than the record store allows. Then it keeps its delivery until it is given back.
    if (later.frame.length > records.capabilities.maxTask) return unchanged
    return { commit, records: { ...asked, post: [...(asked.post ?? []), later] }, end: { kind: "ack", token } }
  }

  /**
   * Ends a delivery once its record is stored. Resolves with `false` where the delivery was lost. `id`: the job of that
   * record, which need not be the job of the task.
   */
  const endDelivery = async (end: NonNullable<Planned["end"]>, id?: string): Promise<boolean> => {
    const token = end.token.slice(1)
    if (end.token.startsWith(QUEUE) && end.kind === "hand-back" && end.delay > 0) {
      setTimeout(() => void endDelivery({ ...end, delay: 0 }), end.delay).unref?.()
      return true
    }
    const mine = held.get(end.token)
    held.delete(end.token)
    if (mine?.isOurs && id !== undefined && mine.id !== id && end.kind === "ack") {
      if (await isNewest(mine)) await records.commit([{ id: mine.id, task: { kind: "withdraw" } }])
    }
    const driver = end.token.startsWith(QUEUE) ? queue : records
    const [answer] = await driver.commit([{ id: GUARD + hash(token), task: { ...end, token } }]).catch(() => [])
    return answer?.status === "committed" && answer.gone !== true
  }

  const commitChecked = async (commits: ReadonlyArray<Commit>): Promise<ReadonlyArray<Committed>> => {
    const now = recordsNow()
    const posts = commits.flatMap(({ post = [] }) => post.filter((posting) => !isScheduled(posting, now)))
    const before = await newestOf(posts)
    const isNew = (posting: Posting, at: number): boolean => before[at] !== orderOfMessage(posting.message)
    const fresh = new Set(posts.filter(isNew))
    const planned = await Promise.all(commits.map((each) => plan(each, now)))
    const asked = planned.flatMap((each) => each.records ?? [])
    const answers = (asked.length === 0 ? [] : await records.commit(asked)).values()
    const done = planned.map(
      (each): Committed => (each.records ? (answers.next().value ?? tooFew()) : { status: "committed", revision: "" }),
    )
    const sent = planned.flatMap(({ commit }, at) =>
      done[at]?.status === "committed" ? (commit.post ?? []).filter((posting) => fresh.has(posting)) : [],
    )
    const [ends] = await Promise.all([
      Promise.all(
        planned.map(
          ({ end }, at) => end === undefined || done[at]?.status !== "committed" || endDelivery(end, commits[at]?.id),
        ),
      ),
      // Two commits may post the same task, which the record store stores once.
      send([...new Map(sent.map((posting) => [posting.key, posting])).values()]),
    ])
    return done.map((answer, at) => (answer.status === "committed" && !ends[at] ? { ...answer, gone: true } : answer))
  }

  const commit: Driver["commit"] = (commits) => {
    const check = (each: Commit): Commit => {
      checkCommit(each, capabilities)
      return each
    }
    return answerTogether(commits, check, commitChecked)
  }

  // ── Reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Leaves out the due time and the deliveries of a parked task, which the record store does not know, and its sequence there. */
  const seen = <K extends Known>(known: K): K => {
    if (known.task === undefined) return known
    const { sequence: _sequence, ...task } = known.task
    if (task.due !== PARKED) return { ...known, task }
    const { due: _due, held: _held, deliveries: _deliveries, ...parked } = task
    return { ...known, task: parked }
  }

  const { query, count, orphans, broadcast } = records
  return {
    name: queue.name,
    capabilities,
    store: records.store,
    ...(broadcast === undefined ? {} : { broadcast }),
    publish: (postings) => {
      const check = (posting: Posting): Posting => {
        checkPosting(posting, capabilities)
        return posting
      }
      return answerTogether(postings, check, publishChecked)
    },
    take,
    extend: async (tokens) => {
      if (closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
      const ask = async (driver: Pick<Driver, "extend">, isOf: (token: string) => boolean) => {
        const own = tokens.filter(isOf)
        const kept = own.length === 0 ? [] : await driver.extend(own.map((token) => token.slice(1)))
        return own.filter((_, at) => kept[at])
      }
      const isOfQueue = (token: string) => token.startsWith(QUEUE)
      const kept = new Set(
        (await Promise.all([ask(queue, isOfQueue), ask(records, (each) => !isOfQueue(each))])).flat(),
      )
      return tokens.map((token) => kept.has(token))
    },
    read: async (ids, what) => (await records.read(ids, what)).map((known) => known && seen(known)),
    commit,
    ...(query === undefined
      ? {}
      : {
          query: async (asked) => {
            const found = await query.call(records, asked)
            return { ...found, jobs: found.jobs.map(seen) }
          },
        }),
    ...(count === undefined ? {} : { count: (state, of) => count.call(records, state, of) }),
    ...(orphans === undefined ? {} : { orphans: (before, max) => orphans.call(records, before, max, PARKED) }),
    listen: (interest, listener, signal) => records.listen(interest, listener, signal),
    onStatus: (listener) => {
      const away = new Set<QueueDriver>()
      const hear = (driver: QueueDriver) =>
        driver.onStatus((status, why) => {
          const before = away.size
          if (status === "disconnected") away.add(driver)
          else away.delete(driver)
          if (before === 0 && away.size > 0) listener("disconnected", why)
          if (before > 0 && away.size === 0) listener("connected")
        })
      const stops = [hear(queue), hear(records)]
      return () => {
        for (const stop of stops) stop()
      }
    },
    close: async () => {
      closing.abort()
      await Promise.all([queue.close(), records.close()])
    },
  }
}

/** Whether a record is stored by which the job has not ended. */
const goesOn = (known: Known | undefined): boolean => {
  try {
    return known?.record !== undefined && !isTerminal(decodeStored(known.record).state)
  } catch {
    return false
  }
}

const tooFew = () => ({ status: "failed" as const, error: tooFewAnswers() })
