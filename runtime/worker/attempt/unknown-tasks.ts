/**
 * What happens to tasks that no actor of this worker serves. A task of another language is forwarded to that language's
 * queue. Any other task is given back and waits for a deployment that serves it, and fails after the grace.
 */

import type { Deferral } from "../../cluster/deferrals.ts"
import * as settlement from "../../jobs/outcome/settlement.ts"
import { LANG } from "../../protocol/headers.ts"
import { publishKey } from "../../protocol/message.ts"
import type { AttemptEnd } from "../../transport/lift/transport.ts"
import { embedOf } from "./handler-input.ts"
import type { OutcomeDecider } from "./outcome-decider.ts"

/** Longest chain of forwards, since two workers could otherwise forward a task to each other for ever. */
const MAX_HOPS = 10

/** Unknown tasks that are remembered. Beyond that the oldest are forgotten, and their grace starts again. */
const CAPACITY = 10_000
const FIRST_DELAY_MS = 1_000
const LONGEST_DELAY_MS = 15_000

export interface UnknownTasksOptions {
  readonly unknownGraceMs: number
  /** Largest body, in bytes, also after decompression. */
  readonly maxBody: number
  /** Queue per language, by the value of the `lang` header. */
  readonly languages: ReadonlyMap<string, string>
  /** Called when a task is given back because it cannot run now. */
  readonly onDeferral: (deferral: Deferral) => void
}

export class UnknownTasks {
  readonly #options: UnknownTasksOptions
  readonly #outcomes: OutcomeDecider
  readonly #seen = new Map<string, { readonly since: number; times: number }>()

  constructor(options: UnknownTasksOptions, outcomes: OutcomeDecider) {
    this.#options = options
    this.#outcomes = outcomes
  }

  /**
   * `begun` is the attempt with the started record, `waiting` the one with the record before that; `problem` says what
   * is not served.
   */
  settle(begun: settlement.Attempt, waiting: settlement.Attempt, isClaimed: boolean, problem: string): AttemptEnd {
    const { posting, task } = waiting
    const { languages, maxBody, unknownGraceMs } = this.#options
    const foreign = task.lang !== null && task.lang !== LANG
    const queue = foreign ? languages.get(task.lang) : undefined
    const mayMove = (posting.hops ?? 0) < MAX_HOPS
    if (queue !== undefined && queue !== posting.queue && mayMove) return settlement.forwarded(waiting, queue)
    const giveUp = (message: string) => {
      const error = { name: "NotRegistered", message, reason: "unknown-actor" }
      return this.#outcomes.givenUp(waiting, embedOf(posting, maxBody), error, "unknown-actor")
    }
    // Celery clients send `py` for every task, so such a task may well be for this service and waits for a worker.
    if (foreign && queue === undefined && task.lang !== "py") {
      return giveUp(`${problem}, and no queue is configured for language ${JSON.stringify(task.lang)}`)
    }
    // Each retry has its own grace, because some worker served the attempt before it.
    const wait = this.#waitFor(publishKey(posting), waiting.now)
    if (wait === undefined)
      return giveUp(`${problem}, and no worker that serves it came within ${unknownGraceMs / 1000} s`)
    this.#options.onDeferral({
      id: posting.id,
      queue: posting.queue,
      reason: "unknown-actor",
      until: waiting.now + wait,
      detail: `${problem}; it is given up after ${unknownGraceMs / 1000} s without a worker that serves it`,
    })
    return settlement.handedBack(begun, isClaimed, wait)
  }

  /**
   * Milliseconds after which the task with this publish key is to be delivered again; `undefined` when its grace is
   * over.
   */
  #waitFor(key: string, now: number): number | undefined {
    const seen = this.#seen.get(key) ?? { since: now, times: 0 }
    const left = seen.since + this.#options.unknownGraceMs - now
    if (left <= 0) {
      this.#seen.delete(key)
      return undefined
    }
    if (this.#seen.size >= CAPACITY && !this.#seen.has(key)) {
      const oldest = this.#seen.keys().next()
      if (!oldest.done) this.#seen.delete(oldest.value)
    }
    const delay = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** seen.times)
    seen.times++
    this.#seen.set(key, seen)
    return Math.min(delay, left)
  }
}
