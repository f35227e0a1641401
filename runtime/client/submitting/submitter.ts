/**
 * Submits tasks: all of them are checked and have their ids before the first one is stored.
 *
 * `jobs/submission/` checks the shape of each task, `planner.ts` and `plan.ts` make the posting of it that a transport carries,
 * `publisher.ts` stores the postings, `jobs/receipt.ts` has the result of each.
 */
import * as Result from "effect/Result"
import type { Directory } from "../../cluster/directory.ts"
import type { EventSender } from "../../cluster/events.ts"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { generateId } from "../../id.ts"
import { firstBeforeItsParent } from "../../jobs/dependencies/defer.ts"
import type { SubmitResult } from "../../jobs/receipt.ts"
import { parseSubmission, type Submission } from "../../jobs/submission/submission.ts"
import type { AddressedTask } from "../../protocol/message.ts"
import type { Tracing } from "../../tracing/tracing.ts"
import { type Planned, Planner, type SubmitContext } from "./planner.ts"
import { Publisher } from "./publisher.ts"

/** Checked submissions, ready to be stored. */
export interface Prepared {
  readonly postings: ReadonlyArray<AddressedTask>
  /** Ids that the caller named: jobs with these ids may exist already. */
  readonly known: ReadonlySet<string>
  readonly now: number
  /** Whether all of them are stored, or none. */
  readonly atomic: boolean
}

export interface SubmitterOptions {
  readonly connection: Connection
  readonly directory: Directory
  /** Task names that stand for an actor's method. */
  readonly taskNames: ReadonlyMap<string, string>
  /** The submitting process: `gen<pid>@<host>`, as Celery writes it. */
  readonly origin: string
  /** The client's name, if it has one. */
  readonly sender: string | undefined
  readonly events: EventSender
  readonly tracing: Tracing | undefined
}

export class Submitter {
  readonly #planner: Planner
  readonly #publisher: Publisher
  readonly #tracing: Tracing | undefined

  constructor({ connection, directory, taskNames, origin, sender, events, tracing }: SubmitterOptions) {
    const planner = new Planner(directory, taskNames, { origin, sender })
    this.#planner = planner
    this.#publisher = new Publisher(connection, events, (task, meth) => planner.methodOf(task, meth))
    this.#tracing = tracing
  }

  /**
   * Checks all submissions and fixes their ids. An invalid one fails the call, with its `index`. Nothing is stored yet.
   */
  async prepare(submissions: ReadonlyArray<unknown>, context: SubmitContext): Promise<Prepared> {
    const now = Date.now()
    const known = new Set<string>()
    const plans: Array<Planned> = []
    const later: Array<Promise<void>> = []
    for (const [index, value] of submissions.entries()) {
      const checked = withUniqueId(parseSubmission(value), known)
      if (Result.isFailure(checked)) {
        plans[index] = Result.fail(checked.failure)
        break
      }
      const id = checked.success.id ?? context.ids?.[index] ?? generateId(now)
      const planned = this.#planner.plan(checked.success, id, now, context)
      if (planned instanceof Promise) {
        // In parallel: each lookup of an actor may take as long as the transport needs to fail.
        const plan = async () => {
          plans[index] = await planned
        }
        later.push(plan())
      } else plans[index] = planned
    }
    if (later.length > 0) await Promise.all(later)
    const postings: Array<AddressedTask> = []
    for (const [index, plan] of plans.entries()) {
      if (Result.isFailure(plan)) throw at(plan.failure, submissions.length, index)
      postings.push(plan.success)
    }
    const misplaced = firstBeforeItsParent(postings)
    if (misplaced !== undefined) throw at(misplaced.error, submissions.length, misplaced.index)
    return { postings, known, now, atomic: context.atomic ?? false }
  }

  /** Stores prepared submissions. Each has a result of its own, in order. */
  async post({ postings, known, now, atomic }: Prepared): Promise<ReadonlyArray<SubmitResult>> {
    const publish = (all: ReadonlyArray<AddressedTask>) =>
      atomic ? this.#publisher.publishTogether(all, known, now) : this.#publisher.publish(all, known, now)
    return this.#tracing === undefined ? publish(postings) : this.#tracing.submission(postings, publish)
  }
}

/** Fails where another submission of the same call has the id; otherwise adds the id to `known`. */
const withUniqueId = (
  checked: Result.Result<Submission, CallboardError>,
  known: Set<string>,
): Result.Result<Submission, CallboardError> => {
  const id = Result.isSuccess(checked) ? checked.success.id : undefined
  if (id === undefined) return checked
  if (known.has(id)) return Result.fail(new CallboardError("invalid-input", "id: is given twice", { field: "id" }))
  known.add(id)
  return checked
}

const at = (error: CallboardError, length: number, index: number): CallboardError =>
  length === 1 ? error : new CallboardError(error.code, `[${index}] ${error.message}`, { ...error.details, index })
