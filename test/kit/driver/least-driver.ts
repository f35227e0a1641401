/**
 * The smallest driver that keeps the contract: in the memory of one process, without optional members. It is atomic, or
 * stepwise with a hook after record, postings and task, in which a test may pause it or make it fail.
 */
import { checkLevel } from "../../../runtime/transport/checks.ts"
import type {
  Capabilities,
  Commit,
  Committed,
  Delivery,
  Driver,
  Interest,
  News,
  Posting,
  Receipt,
  Taken,
  TakeRequest,
} from "../../../runtime/transport/driver.ts"
import type { Index, Known } from "../../../runtime/transport/known.ts"
import { type ConnectOptions, TransportError } from "../../../runtime/transport/mod.ts"
import type { Entry, Store, StoreOperation } from "../../../runtime/transport/store.ts"

interface Task {
  readonly posting: Pick<Posting, "id" | "key" | "queue" | "level" | "due" | "expires">
  readonly index?: Index
  readonly frame: Uint8Array
  readonly sequence: number
  readonly at: number
  /** Token of the delivery that has the task; "" where none has. */
  token: string
  /** The task is not delivered before this time. */
  until: number
  deliveries: number
}

interface Stored {
  readonly revision: string
  readonly bytes: Uint8Array
  readonly index: Index
  readonly at: number
  readonly until: number
}

interface Value {
  readonly value: Uint8Array
  readonly revision: string
  readonly until: number
}

/** What all connections of one namespace share. */
export class LeastBoard {
  counter = 0
  readonly tasks = new Set<Task>()
  readonly keys = new Map<string, number>()
  readonly records = new Map<string, Stored>()
  readonly values = new Map<string, Value>()
  readonly listeners = new Set<(news: News) => void>()
  readonly hearers = new Set<{ readonly topic: string; readonly listener: (payload: Uint8Array) => void }>()
  /** A number for each job, in the order in which the jobs first appeared. */
  readonly jobs = new Map<string, number>()

  /** Gives a job its number when it first appears. */
  meet(id: string): void {
    if (!this.jobs.has(id)) this.jobs.set(id, ++this.counter)
  }

  /** The next number for a revision, a sequence or a token; no number is used twice. */
  next(): string {
    return String(++this.counter).padStart(9, "0")
  }

  /** Puts bytes that are not a message into a queue, in place of a task. */
  inject(queue: string, frame: Uint8Array): void {
    const sequence = Number(this.next())
    const posting = { id: `injected-${sequence}`, key: `injected-${sequence}/1/0`, queue, level: 4 }
    this.tasks.add({ posting, frame: frame.slice(), sequence, at: Date.now(), token: "", until: 0, deliveries: 0 })
    this.tell({ kind: "queue", queue })
  }

  tell(news: News): void {
    for (const listener of this.listeners) queueMicrotask(() => listener(news))
  }
}

/** Whether a delivery has the task. */
export const isHeld = ({ token, until }: Pick<Task, "token" | "until">): boolean => token !== "" && until > Date.now()

/** Called after each step of a commit. If it throws, the commit ends there. */
export type Step = (name: "record" | "post" | "task", commit: Commit) => Promise<void> | void

export interface LeastOptions {
  /** Makes the driver stepwise. */
  readonly step?: Step
  /** How long a publish key is remembered, in milliseconds. */
  readonly dedupeWindow?: number
}

const WINDOW = 120_000

export const leastCapabilities: Capabilities = {
  durability: "none",
  reach: "process",
  atomic: true,
  waits: false,
  dedupeWindow: WINDOW,
  delay: Number.POSITIVE_INFINITY,
  bands: 10,
  front: true,
  maxTask: 4 << 20,
  maxRecord: 16 << 20,
  leaseResolution: 20,
  dueResolution: 20,
}

export const leastDriver = (
  board: LeastBoard,
  { lease }: Pick<ConnectOptions, "lease">,
  { step, dedupeWindow = WINDOW }: LeastOptions = {},
): Driver => {
  const closing = new AbortController()
  const capabilities: Capabilities = { ...leastCapabilities, atomic: step === undefined, dedupeWindow }
  let served = ""
  const guard = () => {
    if (closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
  }
  const check = ({ id, queue, level, frame }: Posting) => {
    checkLevel(id, level)
    for (const name of [id, queue]) {
      const bytes = Buffer.byteLength(name)
      if (bytes < 1 || bytes > 255)
        throw new TransportError("invalid", `${id}: a name has 1 to 255 bytes, not ${bytes}`)
    }
    const { maxTask } = capabilities
    if (frame.length <= maxTask) return
    throw new TransportError("too-large", `${id}: ${frame.length} bytes; at most ${maxTask} are allowed`)
  }

  const isKnown = ({ key }: Posting): boolean =>
    (board.keys.get(key) ?? 0) > Date.now() || [...board.tasks].some((task) => task.posting.key === key)

  const post = (posting: Posting): "stored" | "duplicate" => {
    const now = Date.now()
    const { id, key, queue, level, due, expires, index, frame } = posting
    if (isKnown(posting)) return "duplicate"
    board.keys.set(key, now + dedupeWindow)
    const kept = {
      id,
      key,
      queue,
      level,
      ...(due === undefined ? {} : { due }),
      ...(expires === undefined ? {} : { expires }),
    }
    board.meet(id)
    const sequence = Number(board.next())
    board.tasks.add({
      posting: kept,
      index,
      frame: frame.slice(),
      sequence,
      at: now,
      token: "",
      until: due ?? 0,
      deliveries: 0,
    })
    board.tell({ kind: "queue", queue })
    board.tell({ kind: "job", id })
    return "stored"
  }

  const publish = async (postings: ReadonlyArray<Posting>) => {
    guard()
    return postings.map((posting): Receipt => {
      try {
        check(posting)
        return { status: post(posting) }
      } catch (error) {
        return { status: "failed", error: asError(error) }
      }
    })
  }

  const take = async ({ queues, max, rotate }: TakeRequest, signal: AbortSignal): Promise<Taken> => {
    guard()
    if (signal.aborted) return { deliveries: [] }
    const now = Date.now()
    const first = rotate ? queues.indexOf(served) + 1 : 0
    const lines = [...queues.slice(first), ...queues.slice(0, first)].map((queue) =>
      [...board.tasks]
        .filter((task) => task.posting.queue === queue && task.until <= now)
        .sort((a, b) => b.posting.level - a.posting.level || a.sequence - b.sequence),
    )
    const taken: Array<Task> = []
    while (taken.length < max && lines.some((line) => line.length > 0)) {
      for (const line of lines) taken.push(...line.splice(0, Math.min(rotate ? 1 : max, max - taken.length)))
    }
    served = taken.at(-1)?.posting.queue ?? served
    const deliveries = taken.map((task): Delivery => {
      task.until = now + lease
      task.token = `${task.sequence}.${board.next()}`
      task.deliveries++
      const { queue, level } = task.posting
      return {
        token: task.token,
        queue,
        level,
        sequence: task.sequence,
        first: task.deliveries === 1,
        fence: String(task.deliveries).padStart(9, "0"),
        deliveries: task.deliveries,
        content: task.frame.slice(),
      }
    })
    const waits = [...board.tasks].flatMap((task) => (queues.includes(task.posting.queue) ? task.until - now : []))
    return deliveries.length > 0 || waits.length === 0
      ? { deliveries }
      : { deliveries, next: Math.max(Math.min(...waits), 0) }
  }

  const taskOf = (token: string) => [...board.tasks].find((task) => task.token === token)

  const extend = async (tokens: ReadonlyArray<string>) => {
    guard()
    return tokens.map((token) => {
      const task = taskOf(token)
      if (task !== undefined) task.until = Date.now() + lease
      return task !== undefined
    })
  }

  const stored = (id: string): Stored | undefined => {
    const found = board.records.get(id)
    return found !== undefined && found.until > Date.now() ? found : undefined
  }

  const tasksOf = (id: string) => [...board.tasks].filter(({ posting }) => posting.id === id)

  const read = async (ids: ReadonlyArray<string>, what: "record" | "all") => {
    guard()
    return ids.map((id): Known | undefined => {
      const record = stored(id)
      const task = what === "all" ? tasksOf(id).at(-1) : undefined
      if (record === undefined && task === undefined) return undefined
      return {
        revision: record?.revision ?? "",
        ...(record === undefined ? {} : { record: record.bytes.slice() }),
        ...(task === undefined ? {} : { task: queued(task) }),
      }
    })
  }

  const queued = (task: Task) => {
    const { queue, due, expires } = task.posting
    return {
      queue,
      at: task.at,
      held: isHeld(task),
      content: task.frame.slice(),
      ...(due === undefined ? {} : { due }),
      ...(expires === undefined ? {} : { expires }),
    }
  }

  const one = async (commit: Commit): Promise<Committed> => {
    const { id, record, post: posts = [], task, unique } = commit
    let revision = ""
    try {
      for (const posting of posts) check(posting)
      const known = unique ? posts.filter(isKnown).map((posting) => posting.id) : []
      if (known.length > 0) return { status: "conflict", known }
      if (record !== undefined) {
        const { bytes, index, keep = Number.POSITIVE_INFINITY } = record
        if (bytes.length > capabilities.maxRecord) {
          throw new TransportError("too-large", `the record of ${id}: ${bytes.length} bytes`)
        }
        if ((stored(id)?.revision ?? "") !== record.expect) return { status: "conflict" }
        board.meet(id)
        revision = board.next()
        const at = Date.now()
        board.records.set(id, { revision, bytes: bytes.slice(), index, at, until: at + keep })
        board.tell({ kind: "job", id, record: bytes.slice() })
        if (step !== undefined) await step("record", commit)
      }
      const before = tasksOf(id)
      for (const posting of posts) {
        post(posting)
        if (step !== undefined) await step("post", commit)
      }
      if (task === undefined) return { status: "committed", revision }
      const done = end(before, task)
      if (step !== undefined) await step("task", commit)
      return done ? { status: "committed", revision } : { status: "committed", revision, gone: true }
    } catch (error) {
      return { status: "failed", error: asError(error), ...(revision === "" ? {} : { revision }) }
    }
  }

  /** Whether the task was there. A commit withdraws only tasks that were stored before it, not its own postings. */
  const end = (before: ReadonlyArray<Task>, how: NonNullable<Commit["task"]>): boolean => {
    if (how.kind === "withdraw") {
      for (const task of before) if (!isHeld(task)) board.tasks.delete(task)
      return true
    }
    const task = taskOf(how.token)
    if (task === undefined) return false
    if (how.kind === "ack") {
      board.tasks.delete(task)
      return true
    }
    task.until = how.delay > 0 ? Date.now() + how.delay : 0
    task.token = ""
    board.tell({ kind: "queue", queue: task.posting.queue })
    return true
  }

  const orphans = async (before: number, max: number, parked?: number) => {
    guard()
    const isLost = (id: string, state: string): boolean => {
      const due = tasksOf(id).at(-1)?.posting.due
      if (tasksOf(id).length === 0) return state === "queued" || state === "scheduled"
      return state === "queued" && due !== undefined && due > Date.now() && due !== parked
    }
    const lost = [...board.records].filter(([id, { index, at }]) => at <= before && isLost(id, index.state))
    lost.sort(([, a], [, b]) => a.at - b.at)
    return lost.slice(0, max).map(([id]) => id)
  }

  return {
    name: "least",
    capabilities,
    store: storeOf(board, guard, capabilities.maxRecord),
    publish,
    take,
    extend,
    read,
    // Without a hook the commit is atomic: there is no turn of the event loop between its steps.
    commit: async (commits) => {
      guard()
      return Promise.all(commits.map(one))
    },
    ...(step === undefined ? {} : { orphans }),
    listen: async (_interest: Interest, listener, signal) => {
      guard()
      if (signal.aborted) return
      board.listeners.add(listener)
      const stop = () => board.listeners.delete(listener)
      AbortSignal.any([signal, closing.signal]).addEventListener("abort", stop, { once: true })
    },
    onStatus: () => () => undefined,
    close: async () => closing.abort(),
  }
}

const storeOf = (board: LeastBoard, guard: () => void, maxValue: number): Store => {
  const live = (key: string): Value | undefined => {
    const found = board.values.get(key)
    return found !== undefined && found.until > Date.now() ? found : undefined
  }
  const entryOf = (key: string): Entry | undefined => {
    const found = live(key)
    return found && { key, value: found.value.slice(), revision: found.revision }
  }
  const check = ({ key, value, ttl }: StoreOperation) => {
    const bytes = Buffer.byteLength(key)
    if (bytes < 1 || bytes > 512 || !key.isWellFormed()) {
      throw new TransportError("invalid", `a key has 1 to 512 bytes of UTF-8, not ${bytes}`)
    }
    if (ttl !== undefined && !(ttl >= 1_000)) throw new TransportError("invalid", "a time to live is at least 1,000")
    if (value instanceof Uint8Array && value.length > maxValue) {
      throw new TransportError("too-large", `${key}: ${value.length} bytes; at most ${maxValue} are allowed`)
    }
  }
  return {
    get: async (keys) => {
      guard()
      return keys.map(entryOf)
    },
    write: async (operations) => {
      guard()
      for (const operation of operations) check(operation)
      const fits = ({ key, expect }: StoreOperation) => expect === undefined || (live(key)?.revision ?? "") === expect
      if (!operations.every(fits)) return "conflict"
      return operations.map(({ key, value, ttl = Number.POSITIVE_INFINITY }) => {
        if (value === null) board.values.delete(key)
        if (value === null || value === undefined) return ""
        const revision = board.next()
        board.values.set(key, { value: value.slice(), revision, until: Date.now() + ttl })
        return revision
      })
    },
    list: async ({ prefix, after, limit, reverse = false }) => {
      guard()
      const isPast = (key: string) =>
        after === undefined || (reverse ? byBytes(key, after) < 0 : byBytes(key, after) > 0)
      const keys = [...board.values.keys()].filter((key) => key.startsWith(prefix) && live(key) && isPast(key))
      keys.sort(byBytes)
      if (reverse) keys.reverse()
      return keys.slice(0, limit).flatMap((key) => entryOf(key) ?? [])
    },
    now: async () => {
      guard()
      return Date.now()
    },
  }
}

const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

const asError = (error: unknown): TransportError =>
  error instanceof TransportError ? error : new TransportError("internal", String(error), { cause: error })
