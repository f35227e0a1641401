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
import { asTransportError, CallboardError } from "../../errors.ts"
import { generateId } from "../../id.ts"
import { firstBeforeItsParent } from "../../jobs/dependencies/defer.ts"
import { GroupNotes } from "../../jobs/groups.ts"
import { publishFailed, type SubmitResult } from "../../jobs/receipt.ts"
import { hasChord, type Placed, placedOf } from "../../jobs/submission/chord.ts"
import { withPromises } from "../../jobs/submission/follow-ups.ts"
import { checkTasks } from "../../jobs/submission/plain-fields.ts"
import { type ParsedSubmission, parseSubmission } from "../../jobs/submission/submission.ts"
import { type Promised, promise } from "../../jobs/tracking/promises.ts"
import type { JobPosting } from "../../protocol/message.ts"
import { isId, MAX_ID_BYTES } from "../../protocol/name.ts"
import type { SubmissionTracing } from "../../tracing/trace.ts"
import { ChordPlans, publishChords } from "./chords.ts"
import { type Planned, Planner, type SubmitContext } from "./planner.ts"
import { type Ids, Publisher } from "./publisher.ts"

/** Checked submissions, ready to be stored. */
export interface Prepared extends Ids {
  readonly postings: ReadonlyArray<JobPosting>
  readonly now: number
  /** Whether all of them are stored, or none. */
  readonly atomic: boolean
  /** Where there are chords: which postings belong to each submission. */
  readonly chords?: ChordPlans
  /** Ids of callbacks and links that are to be noted before the first task is stored. */
  readonly promised?: ReadonlyArray<Promised>
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
  readonly tracing: SubmissionTracing | undefined
}

export class Submitter {
  readonly #planner: Planner
  readonly #publisher: Publisher
  readonly #tracing: SubmissionTracing | undefined
  readonly #connection: Connection
  readonly #groups: GroupNotes

  constructor({ connection, directory, taskNames, origin, sender, events, tracing }: SubmitterOptions) {
    const planner = new Planner(directory, taskNames, { origin, sender })
    this.#planner = planner
    this.#publisher = new Publisher(connection, events, (task, meth) => planner.methodOf(task, meth))
    this.#tracing = tracing
    this.#connection = connection
    this.#groups = new GroupNotes(connection.store)
  }

  /**
   * Checks all submissions and fixes their ids. An invalid one fails the call, with its `index`. Nothing is stored yet.
   */
  async prepare(submissions: ReadonlyArray<unknown>, context: SubmitContext): Promise<Prepared> {
    checkTasks(submissions)
    const now = Date.now()
    const known = new Set<string>()
    const unique = new Set<string>()
    const plans: Array<Planned> = []
    const later: Array<Promise<void>> = []
    const chords = new ChordPlans()
    const promised: Array<Promised> = []
    let index = -1
    for (const value of submissions) {
      index++
      const checked = withUniqueId(parseSubmission(value), known)
      if (Result.isFailure(checked)) {
        plans.push(Result.fail(checked.failure))
        chords.add(index)
        break
      }
      if (checked.success.unique !== undefined && checked.success.id !== undefined) unique.add(checked.success.id)
      const id = checked.success.id ?? context.ids?.[index] ?? generateId(now)
      if (isPlain(checked.success)) {
        this.#plan(checked.success, id, now, context, plans, later)
        chords.add(index)
        continue
      }
      if (!hasChord(checked.success)) {
        const named = withPromises(checked.success, id)
        promised.push(...named.promised)
        this.#plan(named.submission, id, now, context, plans, later)
        chords.add(index)
        continue
      }
      const named = withPromises(checked.success, id)
      promised.push(...named.promised)
      const placed = placedOf(named.submission, id, { parse: parseSubmission, rootId: context.parent?.rootId })
      if (Result.isFailure(placed)) {
        plans.push(Result.fail(placed.failure))
        chords.add(index)
        break
      }
      const taken = new Set([id])
      for (const [place, each] of placed.success.entries()) {
        const clash = place === 0 ? undefined : uniqueMember(each, checked.success.id !== undefined, known, taken)
        if (clash !== undefined) plans.push(Result.fail(clash))
        else {
          const { placement } = each
          promised.push(...(each.promised ?? []))
          this.#plan(each.submission, each.id, now, { ...context, ...(placement && { placement }) }, plans, later)
        }
        chords.add(index, each)
      }
    }
    if (later.length > 0) await Promise.all(later)
    const postings: Array<JobPosting> = []
    for (const plan of plans) {
      const place = postings.length
      if (Result.isFailure(plan))
        throw at(chords.placed(plan.failure, place), submissions.length, chords.submissionOf(place))
      postings.push(plan.success)
    }
    const misplaced = firstBeforeItsParent(postings)
    if (misplaced !== undefined)
      throw at(
        chords.placed(misplaced.error, misplaced.index),
        submissions.length,
        chords.submissionOf(misplaced.index),
      )
    if (context.atomic && !chords.isEmpty) {
      throw new CallboardError("unsupported", "chord: its members cannot be stored atomically", { field: "chord" })
    }
    return {
      postings,
      known,
      unique,
      now,
      atomic: context.atomic ?? false,
      ...(chords.isEmpty ? {} : { chords }),
      ...(promised.length === 0 ? {} : { promised }),
    }
  }

  /**
   * Stores the groups and the promised ids, which other processes may look up, before the tasks. Fails as the store
   * does.
   */
  async #note(groups: ReadonlySet<string> | undefined, promised: ReadonlyArray<Promised>, now: number): Promise<void> {
    if (groups !== undefined) await this.#groups.note(groups, now)
    await promise(this.#connection.store, promised, now)
  }

  /** Adds the plan of a task to `plans`: at once, or by a promise in `later`. */
  #plan(
    submission: ParsedSubmission,
    id: string,
    now: number,
    context: SubmitContext,
    plans: Array<Planned>,
    later: Array<Promise<void>>,
  ): void {
    const planned = this.#planner.plan(submission, id, now, context)
    if (!(planned instanceof Promise)) {
      plans.push(planned)
      return
    }
    const place = plans.push(Result.fail(new CallboardError("internal", "the task was not planned"))) - 1
    // In parallel: each lookup of an actor may take as long as the transport needs to fail.
    later.push(placePlan(plans, place, planned))
  }

  /**
   * The posting of a submission that was checked before, under this id. Its group is noted. Fails with `CallboardError`, and as
   * the store does.
   */
  async plan(submission: ParsedSubmission, id: string, now: number): Promise<JobPosting> {
    // Its actor may have lost the method since then: the worker notes that in the record of the job.
    const planned = await this.#planner.plan(submission, id, now, { lenient: true })
    if (Result.isFailure(planned)) throw planned.failure
    const groups = groupsOf([planned.success])
    if (groups !== undefined) await this.#groups.note(groups, now)
    return planned.success
  }

  /** Sends the event `task-sent` of a task that was stored otherwise, if such events are on. Never rejects. */
  sent(posting: JobPosting): Promise<void> {
    return this.#publisher.sent(posting)
  }

  /** Stores prepared submissions. Each has a result of its own, in order. */
  async post(prepared: Prepared): Promise<ReadonlyArray<SubmitResult>> {
    const { postings, now, atomic, chords, promised = [] } = prepared
    const groups = groupsOf(postings, chords?.laterGroups)
    const unnoted =
      groups === undefined && promised.length === 0
        ? undefined
        : await this.#note(groups, promised, now).then(() => undefined, asTransportError)
    if (unnoted !== undefined) {
      const refused = postings.map(({ id }) => publishFailed(id, unnoted, "none"))
      return chords?.perSubmission(refused) ?? refused
    }
    const publish = (all: ReadonlyArray<JobPosting>) =>
      chords === undefined
        ? atomic
          ? this.#publisher.publishTogether(all, prepared, now)
          : this.#publisher.publish(all, prepared, now)
        : publishChords(chords, all, now, {
            connection: this.#connection,
            findRefused: (some) => this.#publisher.findRefused(some, prepared),
            publish: (some) => this.#publisher.publish(some, prepared, now),
          })
    return this.#tracing === undefined ? publish(postings) : this.#tracing.submission(postings, publish)
  }
}

/** A function of its own: were it made where it is needed, each task would cost a scope and a closure. */
const placePlan = async (plans: Array<Planned>, place: number, planned: Promise<Planned>): Promise<void> => {
  plans[place] = await planned
}

/** Fails where another submission of the same call has the id; otherwise adds the id to `known`. */
const withUniqueId = (
  checked: Result.Result<ParsedSubmission, CallboardError>,
  known: Set<string>,
): Result.Result<ParsedSubmission, CallboardError> => {
  const id = Result.isSuccess(checked) ? checked.success.id : undefined
  if (id === undefined) return checked
  if (known.has(id)) return Result.fail(new CallboardError("invalid-input", "id: is given twice", { field: "id" }))
  known.add(id)
  return checked
}

/** Whether the submission names no callbacks, chain or chord. Most submissions name none. */
const isPlain = ({ callbacks, chain, chord }: ParsedSubmission): boolean =>
  callbacks === undefined && chain === undefined && chord === undefined

const NO_GROUPS: ReadonlySet<string> = new Set()

/** The groups of the tasks, and of tasks that follow them; `undefined` where there are none, as in most calls. */
const groupsOf = (
  postings: ReadonlyArray<JobPosting>,
  later: ReadonlySet<string> = NO_GROUPS,
): ReadonlySet<string> | undefined => {
  let groups: Set<string> | undefined = later.size === 0 ? undefined : new Set(later)
  for (const { message } of postings) {
    const { group } = message.headers
    if (typeof group === "string") groups = (groups ?? new Set()).add(group)
  }
  return groups
}

/**
 * Fails where a member, or a link of its chain, has the id of another job of the call; otherwise adds to `known` what may exist
 * already: ids that the caller has named, and those that are made of a named body's.
 */
const uniqueMember = (
  { id, submission }: Placed<ParsedSubmission>,
  isNamed: boolean,
  known: Set<string>,
  taken: Set<string>,
): CallboardError | undefined => {
  for (const each of [id, ...(submission.chain ?? []).flatMap((link) => link.id ?? [])]) {
    if (taken.has(each) || known.has(each))
      return new CallboardError("invalid-input", `id: ${each} is given twice`, { field: "id" })
    // The id of a member is made of the id of its body, which may be long.
    if (!isId(each)) return new CallboardError("invalid-input", `id: ${TOO_LONG}: ${each}`, { field: "id" })
    taken.add(each)
  }
  if (isNamed || submission.id !== undefined) known.add(id)
  return undefined
}

const TOO_LONG = `exceeds ${MAX_ID_BYTES} bytes with its index in the chord`

const at = (error: CallboardError, length: number, index: number): CallboardError =>
  length === 1 ? error : new CallboardError(error.code, `[${index}] ${error.message}`, { ...error.details, index })
