/**
 * Stores the tasks of chords: first the entries that count their members, then the bodies, and only then the members.
 */
import type { Connection } from "../../connection/connection.ts"
import { asTransportError, CallboardError } from "../../errors.ts"
import { openChord } from "../../jobs/dependencies/chords.ts"
import { publishFailed, type SubmitResult } from "../../jobs/receipt.ts"
import { ofMember, type Placed } from "../../jobs/submission/chord.ts"
import type { JobPosting } from "../../protocol/message.ts"

/** Which tasks of a call belong together. */
export class ChordPlans {
  /** For each task of the call, in order, the place of its submission. */
  readonly #submissions: Array<number> = []
  /** Where members are in their submissions, by their place among the tasks of the call. */
  readonly #paths = new Map<number, string>()
  /** The members of each chord, by the id of its body. */
  readonly members = new Map<string, ReadonlyArray<ReadonlyArray<string>>>()
  /** Groups whose jobs a worker submits: members that follow a link of a chain. */
  readonly laterGroups = new Set<string>()

  /** Notes the next task. */
  add(submission: number, placed?: Placed<unknown>): void {
    const task = this.#submissions.push(submission) - 1
    if (placed?.path !== undefined) this.#paths.set(task, placed.path)
    const later = placed?.placement?.fanOut
    if (later !== undefined) this.laterGroups.add(later.group)
    if (placed?.members !== undefined) this.members.set(placed.id, placed.members)
  }

  get isEmpty(): boolean {
    return this.members.size === 0
  }

  /** An error of a task, with its place in the submission where it is a member. */
  placed(error: CallboardError, task: number): CallboardError {
    const path = this.#paths.get(task)
    return path === undefined ? error : ofMember(error, path)
  }

  /** The first result of each submission: that of its body. */
  perSubmission<R>(results: ReadonlyArray<R>): ReadonlyArray<R> {
    return results.filter((_, task) => task === 0 || this.submissionOf(task) !== this.submissionOf(task - 1))
  }

  submissionOf(task: number): number {
    return this.#submissions[task] ?? task
  }
}

interface Board {
  readonly connection: Pick<Connection, "store" | "jobs">
  /** Why tasks would be refused if they were stored now, by their ids. */
  readonly findRefused: (postings: ReadonlyArray<JobPosting>) => Promise<ReadonlyMap<string, CallboardError>>
  readonly publish: (postings: ReadonlyArray<JobPosting>) => Promise<ReadonlyArray<SubmitResult>>
}

/**
 * One result per submission, in order: that of its own job. Where another job of it was not accepted it is that job's error, and
 * submitting the whole again with the same id is safe. Never rejects.
 */
export const publishChords = async (
  chords: ChordPlans,
  postings: ReadonlyArray<JobPosting>,
  now: number,
  { connection, findRefused, publish }: Board,
): Promise<ReadonlyArray<SubmitResult>> => {
  const answers = new Map<string, SubmitResult>()
  /** The first task that was not accepted, by submission. */
  const refused = new Map<number, CallboardError>()
  const all = postings.map((posting, task) => ({ posting, submission: chords.submissionOf(task) }))
  const publishSome = async (some: typeof all) => {
    const given = await publish(some.map(({ posting }) => posting))
    for (const [at, { posting, submission }] of some.entries()) {
      const answer = given[at] ?? publishFailed(posting.id, undefined)
      answers.set(posting.id, answer)
      if (answer instanceof CallboardError && !refused.has(submission)) refused.set(submission, answer)
    }
  }
  try {
    const early = await findRefused(postings)
    for (const { posting, submission } of all) {
      const error = early.get(posting.id)
      if (error === undefined) continue
      answers.set(posting.id, error)
      // Nothing of a chord is stored of which a task would be refused: the others would run for nothing.
      if (!refused.has(submission)) refused.set(submission, error)
    }
    for (const { posting, submission } of all) {
      const members = chords.members.get(posting.id)
      if (members !== undefined && !refused.has(submission)) await openChord(connection, posting.id, members, now)
    }
  } catch (cause) {
    const error = asTransportError(cause)
    return chords.perSubmission(postings.map(({ id }) => publishFailed(id, error, "none")))
  }
  const unstored = new Set(refused.keys())
  const isBody = ({ posting, submission }: (typeof all)[number]): boolean =>
    chords.members.has(posting.id) && !refused.has(submission)
  await publishSome(all.filter(isBody))
  // Members of a body that was not accepted would run for nothing.
  await publishSome(
    all.filter(({ posting, submission }) => !chords.members.has(posting.id) && !refused.has(submission)),
  )
  return chords.perSubmission(all).map(({ posting: { id }, submission }) => {
    const answer = answers.get(id)
    const error = refused.get(submission)
    if (error === undefined) return answer ?? publishFailed(id, undefined)
    return answer instanceof CallboardError ? answer : ofWhole(error, id, unstored.has(submission) ? "none" : "unknown")
  })
}

/** The error of a submission of which other jobs are not stored, or may be: then submitting all of it again is safe. */
const ofWhole = (error: CallboardError, id: string, outcome: "none" | "unknown"): CallboardError =>
  new CallboardError(error.code, `a task of the chord of job ${id} was not accepted: ${error.message}`, {
    ...error.details,
    id,
    outcome,
  })
