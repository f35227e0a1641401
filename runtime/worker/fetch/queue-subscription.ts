/** What a worker wants to pull now: which queues, in which order. Changes while it runs, and says so. */

export interface QueueSubscriptionOptions {
  /** In order of preference. */
  readonly queues: ReadonlyArray<string>
  /** Whether a queue is not worth pulling now, although nobody said so: all its actors are unhealthy. */
  readonly isIdle: (queue: string) => boolean
}

export class QueueSubscription {
  readonly #isIdle: (queue: string) => boolean
  #listed: ReadonlyArray<string>
  #paused: ReadonlySet<string> = new Set()
  #suspended = false
  readonly #waiting = new Set<() => void>()
  #changes = 0

  constructor(options: QueueSubscriptionOptions) {
    this.#listed = [...new Set(options.queues)]
    this.#isIdle = options.isIdle
  }

  /** The queues that it listens to, paused ones included. */
  get listed(): ReadonlyArray<string> {
    return this.#listed
  }

  get isSuspended(): boolean {
    return this.#suspended
  }

  /** The queues to pull now. */
  get queues(): ReadonlyArray<string> {
    return this.#open.filter((queue) => !this.#isIdle(queue))
  }

  /** Whether a queue is left out whose actors may be healthy again any moment: nobody will say when. */
  get waitsForActors(): boolean {
    return this.#open.some((queue) => this.#isIdle(queue))
  }

  get #open(): ReadonlyArray<string> {
    return this.#suspended ? [] : this.#listed.filter((queue) => !this.#paused.has(queue))
  }

  /** Whether tasks of a queue that were pulled already may start. */
  allows(queue: string): boolean {
    return this.#open.includes(queue)
  }

  /** Listens to one queue more, in the last place. False if it does already. */
  add(queue: string): boolean {
    if (this.#listed.includes(queue)) return false
    this.#listed = [...this.#listed, queue]
    this.#changed()
    return true
  }

  /** Does not listen to a queue any more. False if it did not. */
  remove(queue: string): boolean {
    if (!this.#listed.includes(queue)) return false
    this.#listed = this.#listed.filter((listed) => listed !== queue)
    this.#changed()
    return true
  }

  pause(queues: Iterable<string>): void {
    this.#paused = new Set(queues)
    this.#changed()
  }

  suspend(suspended: boolean): void {
    if (suspended === this.#suspended) return
    this.#suspended = suspended
    this.#changed()
  }

  /** Counts up with each change: what {@link changedSince} is asked with. */
  get version(): number {
    return this.#changes
  }

  /** Resolves once something has changed since then; at once, if it has. */
  changedSince(version: number, signal: AbortSignal): Promise<void> {
    if (version !== this.#changes || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        signal.removeEventListener("abort", done)
        this.#waiting.delete(done)
        resolve()
      }
      signal.addEventListener("abort", done)
      this.#waiting.add(done)
    })
  }

  #changed(): void {
    this.#changes++
    for (const done of [...this.#waiting]) done()
  }
}
