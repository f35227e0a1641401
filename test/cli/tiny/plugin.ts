/**
 * A transport as somebody else would write it, in a package of its own: first in, first out, in one process. It declares
 * how little it can do, and the conformance kit says whether it does that right.
 */
import {
  type Capabilities,
  type ConnectOptions,
  type Delivery,
  type Plugin,
  type Posting,
  type PullRequest,
  type Receipt,
  type Settled,
  type Settlement,
  type Transport,
  TransportError,
} from "callboard/transport"

export const capabilities: Capabilities = {
  durability: "none",
  dedupeWindow: 0,
  delay: false,
  priorityBands: 1,
  front: false,
  keyed: false,
  maxTask: 1024 * 1024,
  maxRecord: 1024 * 1024,
  leaseResolution: 20,
  dueResolution: 20,
  reach: "process",
  atomicSettle: true,
  browse: false,
}

/** Set by a test: the fault that the kit must find. */
export const faults = { forgetsAcks: false }

interface Task {
  readonly posting: Posting
  readonly sequence: number
  /** Not before: a hand-back may have a delay, a delivery has a lease. */
  until: number
  deliveries: number
  token: string | undefined
}

class Board {
  readonly tasks = new Set<Task>()
  readonly waiting = new Set<() => void>()
  sequence = 0

  add(posting: Posting): void {
    this.tasks.add({
      posting: structuredClone(posting),
      sequence: this.sequence++,
      until: 0,
      deliveries: 0,
      token: undefined,
    })
    this.ring()
  }

  ring(): void {
    for (const wake of [...this.waiting]) wake()
  }

  ready(queue: string): ReadonlyArray<Task> {
    const now = Date.now()
    return [...this.tasks].filter((task) => task.posting.queue === queue && task.until <= now)
  }

  held(token: string): Task | undefined {
    return [...this.tasks].find((task) => task.token === token && task.until > Date.now())
  }
}

const boards = new Map<string, Board>()

const refusalOf = ({ due, level, key, message }: Posting): TransportError | undefined => {
  const lacks = due !== undefined ? "due times" : level > 9 ? "front" : key !== undefined ? "keys" : undefined
  if (lacks !== undefined) return new TransportError("unsupported", `tiny has no ${lacks}`)
  // As the runtime frames it: nine bytes, headers and properties as JSON, the body.
  const size = 9 + Buffer.byteLength(JSON.stringify([message.headers, message.properties])) + message.body.byteLength
  if (size <= capabilities.maxTask) return undefined
  return new TransportError("too-large", `a task is at most ${capabilities.maxTask} bytes, not ${size}`)
}

const connect = async (url: URL, { namespace, lease }: ConnectOptions): Promise<Transport> => {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(namespace))
    throw new TransportError("invalid", "a namespace is 1 to 64 of A-Z a-z 0-9 _ -")
  const place = `${url.host} ${namespace}`
  const board = boards.get(place) ?? new Board()
  boards.set(place, board)
  const closing = new AbortController()
  const open = <A>(run: () => A): Promise<A> =>
    new Promise((resolve) => {
      if (closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
      resolve(run())
    })

  const deliver = (task: Task): Delivery => {
    task.deliveries++
    task.until = Date.now() + lease
    task.token = `${task.sequence}/${task.deliveries}`
    setTimeout(() => board.ring(), lease + 1).unref()
    return {
      token: task.token,
      fence: String(task.deliveries).padStart(10, "0"),
      queue: task.posting.queue,
      level: 4,
      sequence: task.sequence,
      fresh: task.deliveries === 1,
      deliveries: task.deliveries,
      message: structuredClone(task.posting.message),
    }
  }

  let served = ""
  const take = ({ queues, max, rotate }: PullRequest): ReadonlyArray<Delivery> => {
    const first = rotate ? queues.indexOf(served) + 1 : 0
    const order = [...queues.slice(first), ...queues.slice(0, first)]
    const lists = order.map((queue) => [...board.ready(queue)])
    const taken: Array<Delivery> = []
    while (taken.length < max) {
      const before = taken.length
      for (const list of lists) {
        while (taken.length < max) {
          const task = list.shift()
          if (task === undefined) break
          taken.push(deliver(task))
          served = task.posting.queue
          if (rotate) break
        }
      }
      if (taken.length === before) break
    }
    return taken
  }

  const pull = async (request: PullRequest, signal: AbortSignal): Promise<ReadonlyArray<Delivery>> => {
    const stop = AbortSignal.any([signal, closing.signal])
    const end = Date.now() + request.wait
    while (!stop.aborted) {
      const taken = take(request)
      const left = end - Date.now()
      if (taken.length > 0 || left <= 0) return taken
      await new Promise<void>((resolve) => {
        const wake = () => {
          clearTimeout(timer)
          board.waiting.delete(wake)
          stop.removeEventListener("abort", wake)
          resolve()
        }
        const timer = setTimeout(wake, left)
        board.waiting.add(wake)
        stop.addEventListener("abort", wake)
      })
    }
    return []
  }

  const settle = ({ token, followUps = [], then }: Settlement): Settled => {
    const task = board.held(token)
    // Its number begins a token: what is not there any more was acknowledged.
    if (task === undefined)
      return { status: [...board.tasks].some((each) => token.startsWith(`${each.sequence}/`)) ? "superseded" : "gone" }
    for (const posting of followUps) board.add(posting)
    task.token = undefined
    if (then.kind === "ack") {
      if (!faults.forgetsAcks) board.tasks.delete(task)
    } else {
      task.until = Date.now() + then.delay
      setTimeout(() => board.ring(), then.delay).unref()
    }
    return { status: "settled" }
  }

  const extend = (token: string): boolean => {
    const task = board.held(token)
    if (task === undefined) return false
    task.until = Date.now() + lease
    setTimeout(() => board.ring(), lease + 1).unref()
    return true
  }

  const publish = (posting: Posting): Receipt => {
    const error = refusalOf(posting)
    if (error !== undefined) return { status: "failed", error }
    board.add(posting)
    return { status: "stored" }
  }

  return {
    name: "tiny",
    capabilities,
    queue: {
      publish: (postings) => open(() => postings.map(publish)),
      pull: (request, signal) => open(() => pull(request, signal)).then((deliveries) => deliveries),
      claim: (claims) =>
        open(() =>
          claims.map(({ token }) => ({ status: board.held(token) ? ("claimed" as const) : ("superseded" as const) })),
        ),
      report: () => open(() => undefined),
      settle: (settlements) => open(() => settlements.map(settle)),
      extend: (tokens) => open(() => tokens.map(extend)),
    },
    onStatus: () => () => undefined,
    close: async () => closing.abort(),
  }
}

export const plugin: Plugin = { schemes: ["tiny"], connect }
export default plugin
