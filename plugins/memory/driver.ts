/** A connection to a board in memory. Each call runs within one turn of the event loop, and is therefore a transaction. */
import type { Capabilities, ConnectOptions, Driver, News } from "../../runtime/transport/mod.ts"
import { answerEach, checkCommit, checkPosting, PlainDriver } from "../../runtime/transport/mod.ts"
import { JobStorage } from "./job-storage.ts"
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

/** The data that all connections of one name and namespace share, for as long as the process lives. */
export class MemoryBoard {
  readonly drivers = new Set<MemoryDriver>()
  readonly store = new MemoryStore()
  readonly jobs = new JobStorage((news) =>
    queueMicrotask(() => {
      for (const driver of this.drivers) driver.onNews(news)
    }),
  )
}

export class MemoryDriver extends PlainDriver implements Driver {
  readonly name = "memory"
  readonly capabilities = capabilities
  readonly #shared: MemoryBoard

  constructor(board: MemoryBoard, options: ConnectOptions) {
    super(options)
    this.#shared = board
    board.drivers.add(this)
  }

  /** News go first to the connection that has listened longest, so that waiting workers get tasks by turns. */
  override async listen(...args: Parameters<Driver["listen"]>): Promise<void> {
    await super.listen(...args)
    const { drivers } = this.#shared
    if (drivers.delete(this)) drivers.add(this)
  }

  readonly onNews = (news: News): void => this.emit(news)
  readonly onAnnouncement = (topic: string, payload: Uint8Array): void => this.emitAnnouncement(topic, payload)

  /** Runs a call after everything whose time has come: due tasks, leases, and times to live. */
  async #in<T>(run: (board: MemoryBoard) => T): Promise<T> {
    this.assertOpen()
    this.#shared.jobs.sweep()
    this.#shared.store.sweep()
    return run(this.#shared)
  }

  readonly publish: Driver["publish"] = (postings) =>
    this.#in(({ jobs }) =>
      answerEach(postings, (posting) => {
        checkPosting(posting, capabilities)
        return { status: jobs.post(posting) }
      }),
    )

  readonly commit: Driver["commit"] = (commits) =>
    this.#in(({ jobs }) =>
      answerEach(commits, (commit) => {
        checkCommit(commit, capabilities)
        return jobs.commit(commit)
      }),
    )

  readonly take: Driver["take"] = (request, signal) =>
    this.#in(({ jobs }) => {
      if (signal.aborted) return { deliveries: [] }
      const taken = jobs.take({ ...request, queues: this.rotated(request) }, this.options.lease)
      this.rotateAfter(taken.deliveries)
      return taken
    })

  readonly extend: Driver["extend"] = (tokens) =>
    this.#in(({ jobs }) => tokens.map((token) => jobs.extend(token, this.options.lease)))
  readonly read: Driver["read"] = (ids, what) => this.#in(({ jobs }) => ids.map((id) => jobs.read(id, what)))
  readonly query: NonNullable<Driver["query"]> = (query) => this.#in(({ jobs }) => jobs.query(query))
  readonly count: NonNullable<Driver["count"]> = (state, queue) => this.#in(({ jobs }) => jobs.count(state, queue))
  readonly queues: NonNullable<Driver["queues"]> = () => this.#in(({ jobs }) => jobs.queues())
  readonly waiting: NonNullable<Driver["waiting"]> = (what, max) => this.#in(({ jobs }) => jobs.waiting(what, max))

  readonly store = this.createStore({
    get: (keys) => this.#in(({ store }) => store.get(keys)),
    write: (operations) => this.#in(({ store }) => store.write(operations)),
    list: (range) => this.#in(({ store }) => store.list(range)),
    now: () => this.#in(() => Date.now()),
    watch: async (prefix, listener, signal) => {
      const { store } = this.#shared
      this.subscribe(store.watchers, { prefix, listener }, signal)
      store.sweepInTime()
    },
  })

  readonly broadcast = this.createBroadcast(async (topic, payload) => {
    const copy = payload.slice()
    queueMicrotask(() => {
      for (const driver of this.#shared.drivers) driver.onAnnouncement(topic, copy)
    })
  })

  /** Memory is always reachable, so the listener is never called. */
  onStatus(): () => void {
    return () => undefined
  }

  async close(): Promise<void> {
    this.closing.abort()
    this.#shared.drivers.delete(this)
  }
}
