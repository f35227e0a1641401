/**
 * Batches reads and commits: what is asked in one turn of the event loop goes to the driver in one call. A second commit of
 * the same job goes into a later call, since a driver takes at most one commit per job in a batch.
 */
import type { Commit, Committed, Driver } from "../driver.ts"
import type { Known } from "../known.ts"
import { TransportError } from "../mod.ts"
import { tooFewAnswers } from "../plain-driver.ts"

/** How often a commit is tried again after a conflict. More conflicts in a row are not chance. */
export const MAX_TRIES = 10

export const contended = (id: string): TransportError =>
  new TransportError("unavailable", `job ${id} keeps changing; try again`)

interface Pending<In, Out> {
  readonly item: In
  readonly resolve: (out: Out) => void
  readonly reject: (thrown: unknown) => void
}

/** Collects what is asked in one turn of the microtasks. Items with the same key go into separate calls, in order. */
class Batcher<In, Out> {
  readonly #send: (items: ReadonlyArray<In>) => Promise<ReadonlyArray<Out>>
  readonly #keyOf: ((item: In) => string) | undefined
  #waiting: Array<Pending<In, Out>> = []

  constructor(send: (items: ReadonlyArray<In>) => Promise<ReadonlyArray<Out>>, keyOf?: (item: In) => string) {
    this.#send = send
    this.#keyOf = keyOf
  }

  ask(item: In): Promise<Out> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) queueMicrotask(() => queueMicrotask(() => void this.#flush()))
      this.#waiting.push({ item, resolve, reject })
    })
  }

  async #flush(): Promise<void> {
    let rest = this.#waiting
    this.#waiting = []
    while (rest.length > 0) {
      const batch = this.#first(rest)
      rest = batch.length === rest.length ? [] : rest.filter((asked) => !batch.includes(asked))
      try {
        const answers = await this.#send(batch.map(({ item }) => item))
        for (const [at, { resolve, reject }] of batch.entries()) {
          const answer = answers[at]
          if (at in answers && answer !== undefined) resolve(answer)
          else reject(tooFewAnswers())
        }
      } catch (thrown) {
        for (const { reject } of batch) reject(thrown)
      }
    }
  }

  /** The items for the next call: the first one of each key. */
  #first(waiting: Array<Pending<In, Out>>): Array<Pending<In, Out>> {
    const keyOf = this.#keyOf
    if (keyOf === undefined || waiting.length === 1) return waiting
    const keys = new Set<string>()
    return waiting.filter(({ item }) => {
      const key = keyOf(item)
      return !keys.has(key) && keys.add(key)
    })
  }
}

/** Answer of a read. A batch tells a missing answer from a job that is not known. */
interface Lookup {
  readonly known: Known | undefined
}

const lookups = (driver: Driver, what: "record" | "all") =>
  new Batcher<string, Lookup>(async (ids) => {
    const found = await driver.read(ids, what)
    return ids.map((_, at) => ({ known: found[at] }))
  })

export class BatchedDriver {
  readonly #records
  readonly #all
  readonly #commits

  constructor(driver: Driver) {
    this.#records = lookups(driver, "record")
    this.#all = lookups(driver, "all")
    this.#commits = new Batcher<Commit, Committed>(
      (commits) => driver.commit(commits),
      ({ id }) => id,
    )
  }

  async read(id: string, what: "record" | "all"): Promise<Known | undefined> {
    const { known } = await (what === "all" ? this.#all : this.#records).ask(id)
    return known
  }

  commit(commit: Commit): Promise<Committed> {
    return this.#commits.ask(commit)
  }
}

/** Whether each commit is of another job, so that all of them may go into one call. */
export const areDistinctJobs = (commits: ReadonlyArray<Commit>): boolean => {
  if (commits.length < 2) return true
  const ids = new Set<string>()
  for (const { id } of commits) ids.add(id)
  return ids.size === commits.length
}
