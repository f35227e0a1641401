/** Chooses which tasks a `take` takes: always the first ones of a queue, so that a place says it all. Reads only. */
import type { TakeRequest } from "../../../runtime/transport/driver.ts"
import type { Database } from "../database/database.ts"
import { int, intOrNull } from "../database/row.ts"
import type { QueueNames } from "../jobs/queue-names.ts"

/** Most bytes of tasks in one `take`, apart from the first task: a transaction must not copy hundreds of megabytes. */
const MAX_BYTES = 8 * 1024 * 1024

/** All tasks of a queue up to a place. */
export interface Chosen {
  readonly queue: number
  readonly name: string
  readonly place: number
}

interface Candidate extends Chosen {
  readonly bytes: number
}

export class Chooser {
  readonly #names: QueueNames
  readonly #candidates
  readonly #total
  /** Queue that was served last, where queues take turns. */
  #served = ""

  constructor(database: Database, names: QueueNames) {
    this.#names = names
    const first = `SELECT place, bytes FROM callboard_job INDEXED BY callboard_job_ready
       WHERE queue = ? AND at = 0 ORDER BY place LIMIT ?`
    this.#candidates = database.prepare(first)
    this.#total = database.prepare(`SELECT max(place) AS place, sum(bytes) AS bytes, count(*) AS count FROM (${first})`)
  }

  /** In the order in which the queues are to be served. */
  choose(request: TakeRequest): ReadonlyArray<Chosen> {
    return request.rotate ? this.#inTurns(request) : this.#inOrder(request)
  }

  #inOrder({ queues, max }: TakeRequest): ReadonlyArray<Chosen> {
    const chosen: Array<Chosen> = []
    const budget = new Budget(max)
    for (const name of queues) {
      const queue = this.#names.find(name)
      const last = queue === undefined ? undefined : (this.#all(queue, name, budget) ?? this.#some(queue, name, budget))
      if (last !== undefined) chosen.push(last)
      if (budget.left <= 0) break
    }
    return chosen
  }

  /** The usual case: they are not too large together. */
  #all(queue: number, name: string, budget: Budget): Chosen | undefined {
    const row = this.#total.get(queue, budget.left) ?? {}
    const place = intOrNull(row, "place")
    const taken = place !== null && budget.takeAll(int(row, "count"), int(row, "bytes"))
    return taken ? { queue, name, place } : undefined
  }

  #some(queue: number, name: string, budget: Budget): Chosen | undefined {
    let last: Chosen | undefined
    for (const candidate of this.#first(queue, name, budget.left)) {
      if (!budget.take(candidate.bytes)) break
      last = candidate
    }
    return last
  }

  /** One task of each queue in turn, from the queue after the one that was served last. */
  #inTurns({ queues, max }: TakeRequest): ReadonlyArray<Chosen> {
    const budget = new Budget(max)
    const start = queues.indexOf(this.#served) + 1
    const turns = [...queues.slice(start), ...queues.slice(0, start)].map((name) => {
      const queue = this.#names.find(name)
      return queue === undefined ? [] : this.#first(queue, name, max)
    })
    const last = new Map<string, Chosen>()
    for (let round = 0; budget.left > 0 && turns.some((each) => each.length > round); round++) {
      for (const each of turns) {
        const candidate = each[round]
        if (candidate === undefined || !budget.take(candidate.bytes)) continue
        last.set(candidate.name, candidate)
        this.#served = candidate.name
      }
    }
    return queues.flatMap((name) => last.get(name) ?? [])
  }

  #first(queue: number, name: string, limit: number): ReadonlyArray<Candidate> {
    return this.#candidates
      .all(queue, limit)
      .map((row) => ({ queue, name, place: int(row, "place"), bytes: int(row, "bytes") }))
  }
}

/** How many tasks, and bytes of them, a `take` may still take. The first one may be as large as it likes. */
class Budget {
  left: number
  #bytes = 0

  constructor(max: number) {
    this.left = max
  }

  take(bytes: number): boolean {
    if (this.left <= 0 || (this.#bytes > 0 && this.#bytes + bytes > MAX_BYTES)) {
      this.left = 0
      return false
    }
    this.#bytes += bytes
    this.left--
    return true
  }

  /** All or nothing. */
  takeAll(count: number, bytes: number): boolean {
    if (count > this.left || this.#bytes + bytes > MAX_BYTES) return false
    this.#bytes += bytes
    this.left -= count
    return true
  }
}
