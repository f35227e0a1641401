/** A broker in memory that keeps only queues, as AMQP does: a delivery belongs to the connection that took it. */
import {
  answerEach,
  type Capabilities,
  type ConnectOptions,
  type Delivery,
  type Posting,
  type QueueDriver,
  TransportError,
} from "../../runtime/transport/mod.ts"

interface Task extends Pick<Posting, "queue" | "level" | "message"> {
  readonly sequence: number
}

export class MemoryQueues {
  readonly tasks: Array<Task> = []
  readonly wakers = new Set<() => void>()
  /** While set, the broker accepts no task and delivers none. */
  isAway = false
  count = 0

  add(task: Task): void {
    this.tasks.push(task)
    this.tasks.sort((a, b) => b.level - a.level || a.sequence - b.sequence)
    for (const wake of this.wakers) wake()
  }
}

export const queueCapabilities: Capabilities = {
  durability: "none",
  reach: "process",
  atomic: false,
  waits: true,
  dedupeWindow: 0,
  delay: 0,
  bands: 10,
  front: true,
  maxTask: 4 << 20,
  maxRecord: 0,
  leaseResolution: 50,
  dueResolution: 0,
}

export const memoryQueue = (board: MemoryQueues, { lease }: Pick<ConnectOptions, "lease">): QueueDriver => {
  const held = new Map<string, { readonly task: Task; lapse: ReturnType<typeof setTimeout> }>()
  const closing = new AbortController()
  let served = ""

  const guard = (): void => {
    if (closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
    if (board.isAway) throw new TransportError("unavailable", "the broker is away")
  }
  const handBack = (token: string): boolean => {
    const found = held.get(token)
    if (found === undefined) return false
    clearTimeout(found.lapse)
    held.delete(token)
    board.add(found.task)
    return true
  }
  const lapsing = (token: string) => setTimeout(() => handBack(token), lease)

  const takeNow = (queues: ReadonlyArray<string>, max: number, rotate: boolean): ReadonlyArray<Delivery> => {
    const found: Array<Delivery> = []
    for (let before = -1; before < found.length && found.length < max; ) {
      before = found.length
      const from = rotate ? queues.indexOf(served) + 1 : 0
      for (const queue of [...queues.slice(from), ...queues.slice(0, from)]) {
        const at = found.length < max ? board.tasks.findIndex((each) => each.queue === queue) : -1
        const [task] = at < 0 ? [] : board.tasks.splice(at, 1)
        if (task === undefined) continue
        const token = String(++board.count)
        held.set(token, { task, lapse: lapsing(token) })
        const { level, sequence } = task
        const content = structuredClone(task.message)
        found.push({ token, queue, level, sequence, first: false, fence: "", deliveries: 1, content })
        served = queue
        if (!rotate) break
      }
    }
    return found
  }

  return {
    name: "memory-queue",
    capabilities: queueCapabilities,
    publish: async (postings) => {
      guard()
      return answerEach(postings, ({ queue, level, message }) => {
        board.add({ queue, level, message: structuredClone(message), sequence: ++board.count })
        return { status: "stored" as const }
      })
    },
    take: async ({ queues, max, wait, rotate }, signal) => {
      guard()
      if (signal.aborted) return { deliveries: [] }
      const ending = AbortSignal.any([signal, closing.signal, AbortSignal.timeout(Math.max(1, wait))])
      for (;;) {
        const deliveries = takeNow(queues, max, rotate)
        if (deliveries.length > 0 || wait <= 0 || ending.aborted) return { deliveries }
        await new Promise<void>((resolve) => {
          const wake = (): void => {
            board.wakers.delete(wake)
            resolve()
          }
          board.wakers.add(wake)
          ending.addEventListener("abort", wake, { once: true })
        })
        if (signal.aborted || closing.signal.aborted) return { deliveries: [] }
        guard()
      }
    },
    extend: async (tokens) => {
      guard()
      return tokens.map((token) => {
        const found = held.get(token)
        if (found === undefined) return false
        clearTimeout(found.lapse)
        found.lapse = lapsing(token)
        return true
      })
    },
    commit: async (commits) => {
      guard()
      return answerEach(commits, ({ task }) => {
        if (task === undefined || task.kind === "withdraw") throw new TransportError("invalid", "not of a queue")
        const found = held.get(task.token)
        if (task.kind === "hand-back" ? handBack(task.token) : found !== undefined) {
          clearTimeout(found?.lapse)
          held.delete(task.token)
          return { status: "committed" as const, revision: "" }
        }
        return { status: "committed" as const, revision: "", gone: true as const }
      })
    },
    onStatus: () => () => undefined,
    close: async () => {
      closing.abort()
      for (const token of held.keys()) handBack(token)
    },
  }
}
