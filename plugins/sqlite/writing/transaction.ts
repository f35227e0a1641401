/** What one write transaction knows and collects: its time, its numbers, and what must be told once it has committed. */
import type { Database } from "../database/database.ts"
import { int } from "../database/row.ts"

/** A job that got a task, or a record. */
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

/** The file's one counter: rises with every number given out, by whichever process. */
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
  readonly now = Date.now()
  /** Queues that got a ready task. */
  readonly readied = new Set<number>()
  /** When the first of the tasks that were put off becomes ready. */
  later = Number.POSITIVE_INFINITY
  /** Filled only when somebody wants to know (see `tells`). */
  readonly jobs: Array<JobChange> = []
  readonly stored: Array<StoreChange> = []
  readonly announced: Array<Announcement> = []
  /** Whether somebody, here or elsewhere, listens for jobs. */
  readonly tells: boolean

  readonly #counter: Counter
  #read = -1
  #last = -1

  constructor(counter: Counter, tells: () => boolean) {
    this.#counter = counter
    this.tells = tells()
  }

  /** The next number: higher than any that was given out before, in any process. */
  next(): number {
    if (this.#last < 0) this.#last = this.#read = this.#counter.read()
    return ++this.#last
  }

  /** A task becomes ready at `at`; 0 is now. */
  put(queue: number, at: number): void {
    if (at === 0) this.readied.add(queue)
    else if (at < this.later) this.later = at
  }

  /** Last thing before the commit. */
  seal(): void {
    if (this.#last !== this.#read) this.#counter.write(this.#last)
  }
}
