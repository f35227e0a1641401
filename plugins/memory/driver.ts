/** One connection to a board in memory. Everything happens between two turns of the event loop: each call is a transaction. */
import { checkCommit, checkOperation, checkPosting } from "../../runtime/transport/checks.ts"
import type { Capabilities, Driver, News, Taken, TakeRequest } from "../../runtime/transport/driver.ts"
import { answerEach, type ConnectOptions, PlainDriver } from "../../runtime/transport/mod.ts"
import type { Store } from "../../runtime/transport/store.ts"
import { Board } from "./job-storage.ts"
import { MemoryStore } from "./store.ts"

export const capabilities: Capabilities = {
  durability: "none",
  reach: "process",
  atomic: true,
  waits: false,
  dedupeWindow: Number.POSITIVE_INFINITY,
  delay: Number.POSITIVE_INFINITY,
  bands: 10,
  front: true,
  maxTask: 4 * 1024 * 1024,
  maxRecord: 16 * 1024 * 1024,
  leaseResolution: 20,
  dueResolution: 20,
}

/** What all connections of one name and namespace share, for as long as the process lives. */
export class Place {
  readonly drivers = new Set<MemoryDriver>()
  readonly store = new MemoryStore()
  readonly board = new Board((news) =>
    queueMicrotask(() => {
      for (const driver of this.drivers) driver.hear(news)
    }),
  )
}

export class MemoryDriver extends PlainDriver implements Driver {
  readonly name = "memory"
  readonly capabilities = capabilities
  readonly #place: Place

  constructor(place: Place, options: ConnectOptions) {
    super(options)
    this.#place = place
    place.drivers.add(this)
  }

  /** News go to the connection first that has listened longest, so that workers which wait get tasks by turns. */
  override async listen(...args: Parameters<Driver["listen"]>): Promise<void> {
    await super.listen(...args)
    const { drivers } = this.#place
    if (drivers.delete(this)) drivers.add(this)
  }

  readonly hear = (news: News): void => this.emit(news)
  readonly hearAnnounced = (topic: string, payload: Uint8Array): void => this.emitAnnouncement(topic, payload)

  async #in<T>(run: (place: Place) => T): Promise<T> {
    this.assertOpen()
    return run(this.#place)
  }

  readonly publish: Driver["publish"] = (postings) =>
    this.#in(({ board }) =>
      answerEach(postings, (posting) => {
        checkPosting(posting, capabilities)
        return { status: board.post(posting) }
      }),
    )

  readonly commit: Driver["commit"] = (commits) =>
    this.#in(({ board }) =>
      answerEach(commits, (commit) => {
        checkCommit(commit, capabilities)
        return board.commit(commit)
      }),
    )

  async take(request: TakeRequest, signal: AbortSignal): Promise<Taken> {
    this.assertOpen()
    if (signal.aborted) return { deliveries: [] }
    const taken = this.#place.board.take({ ...request, queues: this.rotated(request) }, this.options.lease)
    this.rotateAfter(taken.deliveries)
    return taken
  }

  readonly extend: Driver["extend"] = (tokens) =>
    this.#in(({ board }) => tokens.map((token) => board.extend(token, this.options.lease)))
  readonly read: Driver["read"] = (ids, what) => this.#in(({ board }) => ids.map((id) => board.read(id, what)))
  readonly query: NonNullable<Driver["query"]> = (query) => this.#in(({ board }) => board.query(query))
  readonly queues: NonNullable<Driver["queues"]> = () => this.#in(({ board }) => board.queues())
  readonly waiting: NonNullable<Driver["waiting"]> = (what, max) => this.#in(({ board }) => board.waiting(what, max))

  readonly store: Store = {
    get: (keys) => this.#in(({ store }) => keys.map((key) => store.get(key))),
    write: (operations) =>
      this.#in(({ store }) => {
        for (const operation of operations) checkOperation(operation, capabilities)
        return store.write(operations)
      }),
    list: (range) => this.#in(({ store }) => store.list(range)),
    now: () => this.#in(() => Date.now()),
    watch: (prefix, listener, signal) =>
      this.#in(({ store }) => {
        if (signal.aborted) return
        const stop = store.watch(prefix, listener)
        AbortSignal.any([signal, this.closing.signal]).addEventListener("abort", stop, { once: true })
      }),
  }

  readonly broadcast = this.createBroadcast(async (topic, payload) => {
    const copy = payload.slice()
    queueMicrotask(() => {
      for (const driver of this.#place.drivers) driver.hearAnnounced(topic, copy)
    })
  })

  /** Memory is always within reach. */
  onStatus(): () => void {
    return () => undefined
  }

  async close(): Promise<void> {
    this.closing.abort()
    this.#place.drivers.delete(this)
  }
}
