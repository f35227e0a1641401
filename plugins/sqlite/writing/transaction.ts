/** One write transaction: its time, its numbers, and the changes to report once it has committed. */
import type { MachineClock } from "../clock.ts"
import { type Database, int } from "../database/database.ts"

/** A job that got a task or a record; `record` holds the bytes of the latter. */
export interface JobChange {
  readonly id: string
  readonly record?: Uint8Array
}

export interface StoreChange {
  readonly key: string
  readonly value?: Uint8Array
}

export interface Announcement {
  readonly topic: string
  readonly payload: Uint8Array
}

/** The counter of the file. Every number that any process gives out is higher than all before it. */
export class Counter {
  readonly #read
  readonly #write

  constructor(database: Database) {
    this.#read = database.prepare("SELECT last FROM callboard_counter WHERE one = 1")
    this.#write = database.prepare("UPDATE callboard_counter SET last = ? WHERE one = 1")
  }

  read(): number {
    return int(this.#read.get() ?? {}, "last")
  }

  write(last: number): void {
    this.#write.run(last)
  }
}

export class Transaction {
  readonly now: number
  /** Leases and values that end at this time or earlier have ended. */
  readonly ended: number
  /** Queues in which this transaction made a task ready. */
  readonly readyQueues = new Set<number>()
  /** When the first task that this transaction delayed becomes ready. */
  nextReadyAt = Number.POSITIVE_INFINITY
  /** Filled only if {@link jobsWatched}. */
  readonly jobChanges: Array<JobChange> = []
  readonly storeChanges: Array<StoreChange> = []
  readonly announcements: Array<Announcement> = []
  /** Whether any process listens for changes of jobs. */
  readonly jobsWatched: boolean

  readonly #counter: Counter
  #read = -1
  #last = -1

  constructor(counter: Counter, jobsWatched: () => boolean, clock: MachineClock) {
    const { now, ended } = clock.read()
    this.now = now
    this.ended = ended
    this.#counter = counter
    this.jobsWatched = jobsWatched()
  }

  /** The next number of the counter: higher than any that was given out before, in any process. */
  next(): number {
    if (this.#last < 0) this.#last = this.#read = this.#counter.read()
    return ++this.#last
  }

  /** Notes that a task of this queue becomes ready at `at`; 0 is now. */
  noteReady(queue: number, at: number): void {
    if (at === 0) this.readyQueues.add(queue)
    else if (at < this.nextReadyAt) this.nextReadyAt = at
  }

  /** Stores the counter. To be called last, before the commit. */
  saveCounter(): void {
    if (this.#last !== this.#read) this.#counter.write(this.#last)
  }
}
