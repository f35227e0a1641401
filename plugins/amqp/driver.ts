/**
 * The driver of the amqp transport, which keeps only queues. It takes tasks one by one (`basic.get`), so that the
 * server applies the order of queues and priorities at that moment, and a worker never holds more tasks than it has
 * handlers for. While there is no task, one consumer per queue waits for the first one.
 */
import { randomUUID } from "node:crypto"
import type { GetMessage, Message } from "amqplib"
import type * as contract from "../../runtime/transport/mod.ts"
import { answerEach, BaseQueueDriver, TransportError } from "../../runtime/transport/mod.ts"
import { waitFor } from "../../runtime/transport/timers.ts"
import { type AmqpLink, type Connect, explain, openLink } from "./link.ts"
import { fromAmqp, taskMessage } from "./message.ts"
import { type AmqpSettings, capabilitiesOf } from "./settings.ts"

/** A delivery that has not ended. */
interface Held {
  readonly message: Message
  /** When the lease ends, by `performance.now()`. */
  until: number
}

interface Came {
  readonly queue: string
  readonly message: Message
}

/** Milliseconds between two searches for leases that have ended. */
const SWEEP_MS = 200

/** Largest priority of a message on a queue without priorities, which the server ignores there. */
const MAX_PRIORITY = 255

export class AmqpDriver extends BaseQueueDriver<AmqpLink> implements contract.QueueDriver {
  readonly name = "amqp"
  readonly capabilities
  readonly #connect: Connect
  readonly #settings: AmqpSettings
  /** Deliveries of this connection that have not ended, by token. */
  readonly #held = new Map<string, Held>()
  /** Identifies the connection in tokens, since the server counts deliveries anew for each connection. */
  #generation = ""
  #sequence = 0
  #swept = performance.now()

  constructor(connect: Connect, settings: AmqpSettings, options: contract.ConnectOptions) {
    super(options)
    this.#connect = connect
    this.#settings = settings
    this.capabilities = capabilitiesOf(settings)
    const sweeps = setInterval(() => this.#sweep(), SWEEP_MS)
    sweeps.unref?.()
    this.closing.signal.addEventListener("abort", () => clearInterval(sweeps), { once: true })
    // The server gives back all deliveries of a lost connection.
    this.onStatus(() => this.#held.clear())
  }

  protected async open(lost: (why: unknown) => void, signal: AbortSignal): Promise<AmqpLink> {
    const { name, timeout } = this.options
    const link = await openLink(this.#connect, this.#settings, name, timeout, lost, signal)
    this.#generation = randomUUID()
    return link
  }

  protected explain(error: unknown): TransportError {
    return explain(error)
  }

  protected tick({ worker }: AmqpLink): Promise<unknown> {
    return worker.prefetch(1)
  }

  // ── Publishing ────────────────────────────────────────────────────────────────────────────────────────────────────

  protected async publishChecked(link: AmqpLink, postings: ReadonlyArray<contract.Posting>) {
    const names = await Promise.all(
      postings.map(({ queue }) => link.declared(queue).catch((error: unknown) => explain(error))),
    )
    return Promise.all(
      postings.map((posting, at) => {
        const name = names[at]
        return typeof name === "string" ? this.#publish(link, posting, name) : refused(name)
      }),
    )
  }

  async #publish(link: AmqpLink, { queue, level, message }: contract.Posting, name: string): Promise<contract.Receipt> {
    this.#sequence = Math.max(this.#sequence + 1, Date.now() * 1_000)
    const priority = Math.min(level, this.#settings.maxPriority || MAX_PRIORITY)
    try {
      const isStored = await link.publish("", name, taskMessage(message, `callboard:${this.#sequence}`, priority))
      if (isStored) return { status: "stored" }
      link.forget(queue)
      return refused(new TransportError("unavailable", `amqp: the queue ${name} was deleted`))
    } catch (error) {
      return refused(explain(error))
    }
  }

  // ── Taking ────────────────────────────────────────────────────────────────────────────────────────────────────────

  override async take(request: contract.TakeRequest, signal: AbortSignal): Promise<contract.Taken> {
    const end = performance.now() + request.wait
    const now = await super.take(request, signal)
    if (now.deliveries.length > 0 || signal.aborted || request.wait <= 0) return now
    const { link, came, first } = await this.call((opened) => this.#wait(opened, request.queues))
    await waitFor(first, Math.max(0, end - performance.now()), AbortSignal.any([signal, this.closing.signal]))
    const ending = this.call(async (opened) => {
      // The consumers of a lost connection are gone, and so are the tasks that they got.
      if (opened !== link) return []
      await came.stop()
      return signal.aborted ? this.#handBack(link, came.messages) : this.#inOrder(link, request, came.messages)
    })
    // When the connection is lost the server gives the tasks back, so an aborted take need not report the error.
    const found = await ending.catch((error: unknown) => (signal.aborted ? [] : Promise.reject(error)))
    const deliveries = found.map((each) => this.#deliver(each))
    this.rotateAfter(deliveries)
    return { deliveries }
  }

  protected async takeNow(link: AmqpLink, request: contract.TakeRequest): Promise<contract.Taken> {
    const { queues, max, rotate } = request
    // All queues are declared first: a refused one would fail the take after tasks have come from another.
    await Promise.all(queues.map((queue) => link.declared(queue)))
    const found: Array<Came> = []
    const turn = rotate ? 1 : max
    for (let left = [...queues]; left.length > 0 && found.length < max; ) {
      const empty = new Set<string>()
      for (const queue of left) {
        const limit = Math.min(max, found.length + turn)
        while (found.length < limit && !empty.has(queue)) {
          const message = await this.#get(link, queue)
          if (message === undefined) empty.add(queue)
          else found.push({ queue, message })
        }
      }
      left = left.filter((queue) => !empty.has(queue))
    }
    const all = rotate ? found : await this.#inOrder(link, request, found)
    return { deliveries: all.map((each) => this.#deliver(each)) }
  }

  protected async handBack(_link: AmqpLink, deliveries: ReadonlyArray<contract.Delivery>): Promise<void> {
    await this.commit(
      deliveries.map(({ token }) => ({ id: token, task: { kind: "hand-back", token, delay: 0 } as const })),
    )
  }

  async #get(link: AmqpLink, queue: string): Promise<GetMessage | undefined> {
    const message = await link.worker.get(await link.declared(queue))
    return message === false ? undefined : message
  }

  /**
   * Sorts tasks by the order of their queues. While a lower queue was read, a task may have come into a higher one that
   * was empty before: so the higher ones are read once more, and the tasks above `max` go back.
   */
  async #inOrder(
    link: AmqpLink,
    { queues, max }: contract.TakeRequest,
    came: ReadonlyArray<Came>,
  ): Promise<ReadonlyArray<Came>> {
    const lowest = Math.max(-1, ...came.map(({ queue }) => queues.indexOf(queue)))
    const found = [...came]
    for (const queue of queues.slice(0, Math.max(0, lowest))) {
      for (
        let more = max - found.filter((each) => queues.indexOf(each.queue) <= queues.indexOf(queue)).length;
        more > 0;
        more--
      ) {
        const message = await this.#get(link, queue)
        if (message === undefined) break
        found.push({ queue, message })
      }
    }
    const sorted = found.toSorted((a, b) => queues.indexOf(a.queue) - queues.indexOf(b.queue))
    this.#handBack(link, sorted.slice(max))
    return sorted.slice(0, max)
  }

  #handBack(link: AmqpLink, came: ReadonlyArray<Came>): ReadonlyArray<Came> {
    for (const { message } of came) link.worker.nack(message, false, true)
    return []
  }

  /**
   * Starts a consumer for each queue, and gives a promise of the first task. Until `stop` is called the server may send
   * one task of each queue.
   */
  async #wait(link: AmqpLink, queues: ReadonlyArray<string>) {
    const messages: Array<Came> = []
    let wake = (): void => undefined
    const first = new Promise<void>((resolve) => {
      wake = resolve
    })
    // All queues are declared first: if one is refused, no consumer may have begun that could hold a task.
    const names = await Promise.all(queues.map(async (queue) => [queue, await link.declared(queue)] as const))
    link.worker.once("close", wake)
    const tags = await Promise.all(
      names.map(async ([queue, name]) => {
        const onMessage = (message: Message | null): void => {
          // The server ends the consumer of a queue that is deleted.
          if (message === null) link.forget(queue)
          else messages.push({ queue, message })
          wake()
        }
        return (await link.worker.consume(name, onMessage)).consumerTag
      }),
    )
    const stop = async (): Promise<void> => {
      link.worker.off("close", wake)
      await Promise.all(tags.map((tag) => link.worker.cancel(tag)))
    }
    return { link, first, came: { messages, stop } }
  }

  #deliver({ queue, message }: Came): contract.Delivery {
    const token = `${this.#generation}.${message.fields.deliveryTag}`
    this.#held.set(token, { message, until: performance.now() + this.options.lease })
    const { message: content, sequence, deliveries, priority } = fromAmqp(message)
    const level = this.#settings.maxPriority === 0 ? 0 : priority
    return { token, queue, level, sequence, first: false, fence: "", deliveries, content }
  }

  // ── Leases ────────────────────────────────────────────────────────────────────────────────────────────────────────

  async extend(tokens: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>> {
    return this.call(async () =>
      tokens.map((token) => {
        const found = this.#held.get(token)
        if (found !== undefined) found.until = performance.now() + this.options.lease
        return found !== undefined
      }),
    )
  }

  protected async commitChecked({ worker }: AmqpLink, commits: ReadonlyArray<contract.Commit>) {
    return answerEach(commits, ({ id, task }): contract.Committed => {
      if (task === undefined || task.kind === "withdraw")
        throw new TransportError("invalid", `${id}: not the end of a delivery`)
      const found = this.#held.get(task.token)
      if (found === undefined) return { status: "committed", revision: "", gone: true }
      this.#held.delete(task.token)
      if (task.kind === "ack") worker.ack(found.message)
      else worker.nack(found.message, false, true)
      return { status: "committed", revision: "" }
    })
  }

  /**
   * Gives back deliveries whose lease has ended. While this process stood still it could not extend them, so their
   * leases are longer by that time.
   */
  #sweep(): void {
    const now = performance.now()
    const late = now - this.#swept - SWEEP_MS
    this.#swept = now
    for (const held of this.#held.values()) if (late > SWEEP_MS) held.until += late
    const over = [...this.#held].flatMap(([token, { until }]) => (until <= now ? [token] : []))
    if (over.length === 0) return
    const release = over.map((token) => ({ id: token, task: { kind: "hand-back", token, delay: 0 } as const }))
    void this.commit(release).catch(() => undefined)
  }
}

const refused = (error: TransportError | undefined): { readonly status: "failed"; readonly error: TransportError } => ({
  status: "failed",
  error: error ?? new TransportError("internal", "amqp: the queue has no name"),
})
