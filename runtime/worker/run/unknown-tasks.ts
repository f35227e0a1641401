/**
 * What happens to tasks that no actor of this worker serves, or whose header asks for what this version does not do. A task of
 * another language is forwarded to that language's queue. Any other task is given back: another worker of the queue may serve
 * it, or a deployment that is under way. It fails after the grace, unless a living worker is known to serve it: then the grace
 * starts again.
 */

import type { Postponement } from "../../cluster/postponements.ts"
import * as settlement from "../../jobs/outcome/settlement.ts"
import { isExternal, LANG, notUnderstoodIn, OWN_HEADER, type Task } from "../../protocol/headers.ts"
import { type JobPosting, publishKey } from "../../protocol/message.ts"
import type { Settlement } from "../../transport/job-store/transport.ts"
import type { ActorPool, Resolution, Unserved } from "../actors/actor-pool.ts"
import type { ParsedDelivery } from "../parsed-delivery.ts"
import type { OutcomeDecider } from "./decide.ts"
import { type BodyOptions, bodyRules, embedOf } from "./handler-input.ts"

/** Longest chain of forwards, since two workers could otherwise forward a task to each other for ever. */
const MAX_FORWARDS = 10

/** The method that a task is for, unless its header has a field that a worker must understand, and that this version does not. */
export const resolveTask = (pool: Pick<ActorPool, "resolve">, task: Task): Resolution => {
  const field = notUnderstoodIn(task.own)
  return field === undefined ? pool.resolve(task.task, task.meth) : notUnderstood(field)
}

const notUnderstood = (field: string): Unserved => ({
  found: false,
  message: `its header sets ${OWN_HEADER}.${field}, which this version does not support`,
  field,
})

/** Unknown tasks that are remembered. Beyond that the oldest are forgotten, and their grace starts again. */
const CAPACITY = 10_000
const FIRST_DELAY_MS = 1_000
const MAX_DELAY_MS = 15_000
/**
 * The same for a task that another worker serves. It is chance which worker gets the task next, so that one of many that
 * serves it needs many tries.
 */
const MAX_SERVED_DELAY_MS = 2_000

export interface UnknownTasksOptions extends BodyOptions {
  readonly unknownGraceMs: number
  /** Queue per language, by the value of the `lang` header. */
  readonly languages: ReadonlyMap<string, string>
  /** The other workers. */
  readonly peers: {
    /** Whether another living worker of the queue serves a task, and understands `field` of its header. */
    serve(queue: string, task: Pick<Task, "task" | "meth">, field?: string): Promise<boolean>
  }
  /** Gets each task that is given back because it cannot run now. */
  readonly postponements: { note(postponement: Postponement): void }
}

interface SeenTask {
  /** When it was found that no worker of its queue serves it, after the last time that one did. */
  unservedSince: number | undefined
  /** How often it was given back. */
  times: number
}

export class UnknownTasks {
  readonly #options: UnknownTasksOptions
  readonly #outcomes: OutcomeDecider
  readonly #seen = new Map<string, SeenTask>()

  constructor(options: UnknownTasksOptions, outcomes: OutcomeDecider) {
    this.#options = options
    this.#outcomes = outcomes
  }

  /**
   * Gives a task back before it is claimed, so that its record shows no attempt here; `undefined` for a task that is to
   * be claimed and settled.
   */
  async handBack(
    token: string,
    { posting, task }: ParsedDelivery,
    now: number,
    { message, field }: Unserved,
  ): Promise<Settlement | undefined> {
    const isForOthers = this.#isExternal(task) || this.#queueElsewhere(posting, task) !== undefined
    if (field === undefined && isForOthers) return undefined
    const unknownGraceMs = this.#graceMs(task, field)
    // Each retry has its own grace, because some worker served the attempt before it.
    const key = publishKey(posting)
    const seen = this.#remember(key)
    const isServed = await this.#options.peers.serve(posting.queue, task, field)
    // The grace begins with the first answer that nothing serves the task: after a stop of all processes, such as a machine that
    // slept, the list of workers is empty for a moment.
    seen.unservedSince = isServed ? undefined : (seen.unservedSince ?? now)
    const left = (seen.unservedSince ?? now) + unknownGraceMs - now
    if (!isServed && left <= 0) {
      this.#seen.delete(key)
      return undefined
    }
    const longest = Math.min(FIRST_DELAY_MS * 2 ** seen.times++, isServed ? MAX_SERVED_DELAY_MS : MAX_DELAY_MS)
    // Brokers serve workers in turn: after equal delays two tasks could come to the same two of four workers for ever.
    const delay = longest * (0.5 + Math.random() / 2)
    const until = now + (isServed ? delay : Math.min(delay, left))
    const end = isServed
      ? "another worker of the queue serves it"
      : `it becomes a dead letter after ${unknownGraceMs / 1000} s without a worker that serves it`
    this.#options.postponements.note({
      id: posting.id,
      queue: posting.queue,
      reason: reasonOf(field),
      until,
      detail: `${message}; ${end}`,
    })
    return { token, then: { kind: "hand-back", delay: until - now } }
  }

  /** The settlement of a task that {@link handBack} does not give back: it is forwarded, or given up. */
  settle(waiting: settlement.Attempt, { message, field }: Unserved): Settlement {
    const { posting, task } = waiting
    const unknownGraceMs = this.#graceMs(task, field)
    // Workers of another language would pass over the field.
    const queue = field === undefined ? this.#queueElsewhere(posting, task) : undefined
    const embed = () => embedOf(posting, bodyRules(this.#options, task))
    if (queue !== undefined) {
      const error = { name: "NotRegistered", message, reason: "unknown-actor" }
      const next = settlement.forwarded(waiting, queue)
      return this.#outcomes.unlessTooLarge(waiting, next, embed, error, `not moved to queue ${queue}`)
    }
    const why =
      field === undefined && this.#isExternal(task)
        ? `no queue is configured for language ${JSON.stringify(task.lang)}`
        : `no worker ${unknownGraceMs === 0 ? "serves it" : `served it within ${unknownGraceMs / 1000} s`}`
    const reason = reasonOf(field)
    const name = field === undefined ? "NotRegistered" : "Unsupported"
    return this.#outcomes.givenUp(waiting, embed(), { name, message: `${message}, and ${why}`, reason }, reason)
  }

  /** A worker of Celery's answers at once that it does not know a task, and its clients rely on that. */
  #graceMs(task: Task, field: string | undefined): number {
    const { external, unknownGraceMs } = this.#options
    return external !== undefined && isExternal(task) && field === undefined ? 0 : unknownGraceMs
  }

  /** The queue of the task's language, where it may be moved there. */
  #queueElsewhere(posting: JobPosting, { lang, own }: Task): string | undefined {
    const queue = lang === null || lang === LANG ? undefined : this.#options.languages.get(lang)
    return queue === posting.queue || (own.forwards ?? 0) >= MAX_FORWARDS ? undefined : queue
  }

  /** Whether no worker of this service can ever serve the task. Celery clients send `py` for every task. */
  #isExternal({ lang }: Task): boolean {
    return lang !== null && lang !== LANG && lang !== "py" && !this.#options.languages.has(lang)
  }

  #remember(key: string): SeenTask {
    const known = this.#seen.get(key)
    if (known !== undefined) return known
    if (this.#seen.size >= CAPACITY) {
      const oldest = this.#seen.keys().next()
      if (!oldest.done) this.#seen.delete(oldest.value)
    }
    const seen: SeenTask = { unservedSince: undefined, times: 0 }
    this.#seen.set(key, seen)
    return seen
  }
}

/** Why a task does not run here: it is not served, or a field of its header is not understood. */
const reasonOf = (field: string | undefined): "unknown-actor" | "unsupported" =>
  field === undefined ? "unknown-actor" : "unsupported"
