/**
 * The queues that a worker pulls from now, in order. They change while the worker runs, and a pull that waits ends
 * then.
 */

export interface QueueSubscriptionOptions {
  /** In order of preference. */
  readonly queues: ReadonlyArray<string>
  /** Whether a queue is not worth pulling from now, because all its actors are unhealthy. */
  readonly isIdle: (queue: string) => boolean
}

export class QueueSubscription {
  readonly #isIdle: (queue: string) => boolean
  #listed: ReadonlyArray<string>
  #paused: ReadonlySet<string> = new Set()
  readonly #full = new Set<string>()
  #suspended = false
  #stuck = false
  readonly #listeners = new Set<() => void>()

  constructor(options: QueueSubscriptionOptions) {
    this.#listed = [...new Set(options.queues)]
    this.#isIdle = options.isIdle
  }

  /** The queues that the worker listens to, including paused ones. */
  get listed(): ReadonlyArray<string> {
    return this.#listed
  }

  get isSuspended(): boolean {
    return this.#suspended
  }

  /** Whether nothing is pulled because stuck handlers hold all slots. */
  get isStuck(): boolean {
    return this.#stuck
  }

  /** The queues to pull from now. */
  get queues(): ReadonlyArray<string> {
    return this.#open.filter((queue) => !this.#full.has(queue) && !this.#isIdle(queue))
  }

  /** Whether a queue is left out because enough of its tasks wait here for its limit. */
  get isFull(): boolean {
    return this.#full.size > 0
  }

  /** Whether a queue is left out because of unhealthy actors. Their recovery is not announced. */
  get waitsForActors(): boolean {
    return this.#open.some((queue) => this.#isIdle(queue))
  }

  /** The queues that nothing is pulled from now, in words with the reason; empty if it pulls from each of them. */
  get leftOut(): string {
    const because = (why: string, queues: ReadonlyArray<string>): ReadonlyArray<string> =>
      queues.length === 0 ? [] : [`${queues.join(", ")} (${why})`]
    if (this.#suspended) return because("the worker is suspended", this.#listed).join()
    const paused = this.#listed.filter((queue) => this.#paused.has(queue))
    const idle = this.#open.filter((queue) => this.#isIdle(queue))
    return [...because("paused", paused), ...because("no healthy actor", idle)].join(", ")
  }

  get #open(): ReadonlyArray<string> {
    return this.#suspended || this.#stuck ? [] : this.#listed.filter((queue) => !this.#paused.has(queue))
  }

  /** Whether tasks of a queue that were pulled already may start. */
  allows(queue: string): boolean {
    return !this.#suspended && !this.#stuck && this.#listed.includes(queue) && !this.#paused.has(queue)
  }

  /** Adds a queue, in the last place. False if it is there already. */
  add(queue: string): boolean {
    if (this.#listed.includes(queue)) return false
    this.#listed = [...this.#listed, queue]
    this.#changed()
    return true
  }

  /** Removes a queue. False if it is not there. */
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

  /** Leaves a queue out while enough of its tasks wait here for its limit. The pull that waits is not cut for that. */
  setFull(queue: string, isFull: boolean): void {
    if (isFull) this.#full.add(queue)
    else if (this.#full.delete(queue)) this.#changed()
  }

  suspend(suspended: boolean): void {
    if (suspended === this.#suspended) return
    this.#suspended = suspended
    this.#changed()
  }

  setStuck(stuck: boolean): void {
    if (stuck === this.#stuck) return
    this.#stuck = stuck
    this.#changed()
  }

  /** Calls the listener after each change, until the returned function is called. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #changed(): void {
    for (const listener of this.#listeners) listener()
  }
}
