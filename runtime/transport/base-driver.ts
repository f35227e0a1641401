/**
 * The base classes of drivers over a connection: of whole drivers, and of drivers with only queues. They bound every call,
 * open a lost connection again and call the listeners, refuse invalid items without asking the broker, and give back
 * tasks that arrive after the signal of their take.
 */
import { checkCommit, checkConnectOptions, checkPosting } from "./checks.ts"
import type { Commit, Committed, Delivery, Posting, Receipt, Taken, TakeRequest } from "./driver.ts"
import { TransportError } from "./errors.ts"
import type { Known } from "./known.ts"
import type { FoundJob, FoundJobs, Query } from "./optional.ts"
import { answerTogether, asError, type Failed, PlainDriver } from "./plain-driver.ts"
import { sleep, startDeadline } from "./timers.ts"

/** An open connection. */
export interface Link {
  /** Closes the connection, also one that does not answer any more. */
  close(): Promise<void> | void
}

/** An open connection, with functions that fail the calls that wait for an answer from it. */
interface Connection<L extends Link> {
  readonly link: L
  readonly waiting: Set<(why: TransportError) => void>
}

type StatusListener = (status: "connected" | "disconnected", why?: TransportError) => void

/** Interval of {@link BaseQueueDriver.tick} without a heartbeat, in milliseconds. */
const TICK_MS = 1_000

export abstract class BaseQueueDriver<L extends Link> extends PlainDriver {
  readonly #statusListeners = new Set<StatusListener>()
  #connection: Connection<L> | undefined
  /** The error of calls while there is no connection. */
  #whyClosed = new TransportError("unavailable", "not connected yet")
  /** Why the broker refuses the tick, over a connection that is open. */
  #refusal: TransportError | undefined
  #closed: Promise<void> | undefined

  /**
   * Opens a connection that is ready for calls and receives the news that current listeners want. The driver calls `lost`
   * when the connection ends by itself. The signal fires when opening failed or took too long: then the driver has to close
   * what it opened so far.
   */
  protected abstract open(lost: (why: unknown) => void, signal: AbortSignal): Promise<L>

  /** Translates an error of the client library. Errors of the connection itself are `unavailable`. */
  protected abstract explain(error: unknown): TransportError

  /**
   * Called twice in each heartbeat. It has the broker store something, so that a dead connection is noticed, and a broker
   * that stores nothing: while it fails with `unavailable`, the driver counts as not reachable. It may remove expired data.
   * With a heartbeat of 0 it is called once a second, and a missing answer does not close the connection.
   */
  protected abstract tick(link: L): Promise<unknown>

  /** Stores the tasks that passed the checks. */
  protected abstract publishChecked(link: L, postings: ReadonlyArray<Posting>): Promise<ReadonlyArray<Receipt>>

  /** Applies the commits that passed the checks. */
  protected abstract commitChecked(link: L, commits: ReadonlyArray<Commit>): Promise<ReadonlyArray<Committed>>

  /** Takes tasks. With `rotate` the queues already begin with the one whose turn it is; each gives one task a turn. */
  protected abstract takeNow(link: L, request: TakeRequest): Promise<Taken>

  /** Gives tasks back that arrived after the signal of their take, uncounted where the broker can do that. */
  protected abstract handBack(link: L, deliveries: ReadonlyArray<Delivery>): Promise<unknown>

  /** Connects for the first time. Fails like `connect` of a plugin. */
  async start(): Promise<this> {
    checkConnectOptions(this.options)
    await this.#open()
    const { heartbeat, timeout } = this.options
    let ticking = false
    const ticks = setInterval(
      async () => {
        if (ticking) return
        ticking = true
        await this.#call((link) => this.tick(link), heartbeat ?? timeout).then(
          () => this.#refused(undefined),
          (error: unknown) => this.#refused(asError(error)),
        )
        ticking = false
      },
      heartbeat ? heartbeat / 2 : TICK_MS,
    )
    ticks.unref?.()
    this.closing.signal.addEventListener("abort", () => clearInterval(ticks), { once: true })
    return this
  }

  publish(postings: ReadonlyArray<Posting>): Promise<ReadonlyArray<Receipt>> {
    const check = (posting: Posting) => checkPosting(posting, this.capabilities)
    return this.#batch(postings, check, (link, sound) => this.publishChecked(link, sound))
  }

  commit(commits: ReadonlyArray<Commit>): Promise<ReadonlyArray<Committed>> {
    const check = (commit: Commit) => checkCommit(commit, this.capabilities)
    return this.#batch(commits, check, (link, sound) => this.commitChecked(link, sound))
  }

  async take(request: TakeRequest, signal: AbortSignal): Promise<Taken> {
    this.assertOpen()
    if (signal.aborted) return { deliveries: [] }
    const taken = await this.call((link) => this.takeNow(link, { ...request, queues: this.rotated(request) }))
    if (signal.aborted) {
      if (taken.deliveries.length > 0) await this.call((link) => this.handBack(link, taken.deliveries))
      return { deliveries: [] }
    }
    this.rotateAfter(taken.deliveries)
    return taken
  }

  /** Asks the broker. A connection that does not answer within `options.timeout` is closed and opened again. */
  protected call<T>(run: (link: L) => Promise<T>): Promise<T> {
    return this.#call(run, this.options.timeout)
  }

  /** A bound of 0 waits for as long as the connection lasts. */
  async #call<T>(run: (link: L) => Promise<T>, bound: number): Promise<T> {
    this.assertOpen()
    const connection = this.#connection
    if (connection === undefined) throw this.#whyClosed
    return new Promise<T>((resolve, reject) => {
      const late = new TransportError("unavailable", `no answer within ${bound} ms`)
      const cancel = bound > 0 ? startDeadline(bound, () => this.#lose(connection, late)) : undefined
      const end = () => {
        cancel?.()
        connection.waiting.delete(fail)
      }
      const fail = (why: TransportError) => {
        end()
        reject(why)
      }
      connection.waiting.add(fail)
      // Starts before the first await, since the caller may change its arguments after this call returned.
      void (async () => run(connection.link))().then(
        (value) => {
          end()
          resolve(value)
        },
        (error: unknown) => fail(error instanceof TransportError ? error : this.explain(error)),
      )
    })
  }

  /** Sends the items that pass the check to the broker in one call. The broker never sees the others, which fail alone. */
  async #batch<I, A>(
    items: ReadonlyArray<I>,
    check: (item: I) => void,
    run: (link: L, items: ReadonlyArray<I>) => Promise<ReadonlyArray<A>>,
  ): Promise<ReadonlyArray<A | Failed>> {
    this.assertOpen()
    const checked = (item: I): I => {
      check(item)
      return item
    }
    return answerTogether(items, checked, async (sound): Promise<ReadonlyArray<A | Failed>> => {
      try {
        return await this.call((link) => run(link, sound))
      } catch (thrown) {
        const error = asError(thrown)
        // A driver may throw only where nothing was tried; otherwise each item fails with an unknown outcome.
        if (error.outcome === "none") throw error
        return sound.map(() => ({ status: "failed", error }))
      }
    })
  }

  onStatus(listener: StatusListener): () => void {
    // A function that is added twice is called twice, so each call adds a listener of its own.
    const own: StatusListener = (status, why) => listener(status, why)
    this.#statusListeners.add(own)
    return () => this.#statusListeners.delete(own)
  }

  close(): Promise<void> {
    this.#closed ??= (async () => {
      this.closing.abort()
      const connection = this.#connection
      this.#connection = undefined
      for (const fail of connection?.waiting ?? []) {
        fail(new TransportError("closed", "this transport was closed", { outcome: "unknown" }))
      }
      await connection?.link.close()
    })()
    return this.#closed
  }

  async #open(): Promise<void> {
    const late = new AbortController()
    let connection: Connection<L> | undefined
    let lost: TransportError | undefined
    const opening = this.open((why) => {
      lost ??= asError(why instanceof TransportError ? why : this.explain(why))
      if (connection !== undefined) this.#lose(connection, lost)
    }, late.signal)
    const link = await new Promise<L>((resolve, reject) => {
      const cancel = startDeadline(this.options.timeout, () => {
        reject(new TransportError("unavailable", `no connection within ${this.options.timeout} ms`))
        opening.then((tooLate) => tooLate.close()).catch(() => undefined)
      })
      opening.then(resolve, reject).finally(cancel)
    }).catch((error: unknown) => {
      late.abort()
      throw error instanceof TransportError ? error : this.explain(error)
    })
    if (lost !== undefined || this.closing.signal.aborted) {
      await link.close()
      throw lost ?? new TransportError("closed", "this transport was closed")
    }
    connection = { link, waiting: new Set() }
    this.#connection = connection
  }

  #refused(why: TransportError | undefined): void {
    if (this.#connection === undefined || (why !== undefined && !why.retryable)) return
    const wasRefused = this.#refusal !== undefined
    this.#refusal = why
    if (why === undefined ? !wasRefused : wasRefused) return
    for (const listener of this.#statusListeners) listener(why === undefined ? "connected" : "disconnected", why)
    if (why === undefined) this.emit({ kind: "missed" })
  }

  #lose(connection: Connection<L>, why: TransportError): void {
    if (this.#connection !== connection) return
    const wasRefused = this.#refusal !== undefined
    this.#connection = undefined
    this.#refusal = undefined
    this.#whyClosed = new TransportError("unavailable", why.message, { cause: why })
    const unanswered = new TransportError("unavailable", why.message, { outcome: "unknown", cause: why })
    for (const fail of connection.waiting) fail(unanswered)
    void (async () => connection.link.close())().catch(() => undefined)
    if (!wasRefused) for (const listener of this.#statusListeners) listener("disconnected", this.#whyClosed)
    void this.#reconnect()
  }

  async #reconnect(): Promise<void> {
    const { signal } = this.closing
    for (let tries = 1; !signal.aborted; tries++) {
      await sleep(this.options.reconnectDelay?.(tries) ?? Math.min(50 * 2 ** tries, 5_000), signal)
      if (signal.aborted) return
      try {
        await this.#open()
      } catch (error) {
        this.#whyClosed = new TransportError("unavailable", asError(error).message, { cause: error })
        continue
      }
      for (const listener of this.#statusListeners) listener("connected")
      this.emit({ kind: "missed" })
      return
    }
  }
}

export abstract class BaseDriver<L extends Link> extends BaseQueueDriver<L> {
  abstract read(ids: ReadonlyArray<string>, what: "record" | "all"): Promise<ReadonlyArray<Known | undefined>>

  /**
   * Answers a query in portions, so that a long search does not delay other calls. `portion` finds ids of jobs from a cursor
   * on, at most as many as it is told, and returns a cursor unless there are no more, and how many rows it has read. It is
   * asked until the page is full, the jobs are at an end, the budget is spent, or the signal fires.
   */
  protected async search(
    { limit, after, budget = Number.POSITIVE_INFINITY, signal, bare }: Query,
    portion: (
      after: string | undefined,
      max: number,
    ) => Promise<{ ids: ReadonlyArray<string>; next?: string; read?: number }>,
  ): Promise<FoundJobs> {
    const end = performance.now() + budget
    const jobs: Array<FoundJob> = []
    let scanned = 0
    for (let from = after; ; ) {
      const { ids, next, read = ids.length } = await portion(from, limit - jobs.length)
      scanned += read
      const found = bare ? ids.map(() => ({ revision: "" })) : await this.read(ids, "all")
      for (const [at, id] of ids.entries()) {
        const known = found[at]
        if (known !== undefined) jobs.push({ ...known, id })
      }
      if (next === undefined) return { jobs, scanned }
      if (jobs.length >= limit) return { jobs, next, scanned }
      if (signal?.aborted || performance.now() > end) return { jobs, next, partial: true, scanned }
      from = next
    }
  }
}
