/** Groups of tasks in code: submitted together, or as a chord with the task that gets their results. */
import { CallboardError } from "../errors.ts"
import { generateId } from "../id.ts"
import type { BulkReport } from "../jobs/commands/decide.ts"
import type { GroupView } from "../jobs/groups.ts"
import type { SubmittedJob, WaitOptions } from "../jobs/handle.ts"
import type { Submission, SubmissionFields } from "../jobs/submission/submission.ts"
import { milliseconds } from "../options/duration.ts"
import { wholeNumber } from "../options/fields.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import { compact } from "../protocol/compact.ts"
import { isObject } from "../protocol/guards.ts"
import { MAX_MEMBERS } from "../protocol/headers.ts"
import type { JobPage, JobQuery } from "./job-query.ts"

/** A group of jobs by its name. Nothing is asked of the transport until a method is called. */
export interface GroupHandle {
  readonly id: string
  /** How many jobs it has, by state. Fails with `CallboardError` `not-found` where none of them is kept. */
  find(): Promise<GroupView>
  /** Its jobs, newest first, a page at a time. */
  jobs(query?: Omit<JobQuery, "group">): Promise<JobPage>
  /**
   * Cancels those of its jobs that have not ended, up to 1,000 per call, and the body that waits for them. Fails with
   * `not-found`.
   */
  cancel(): Promise<BulkReport>
}

/** A group that was just submitted. */
export interface SubmittedGroup<R = unknown> extends GroupHandle {
  /** One for each task, in order. */
  readonly members: ReadonlyArray<SubmittedJob<R>>
  /**
   * Waits for the end of all members, together no longer than `timeout`, and resolves with their results, in order.
   * Fails with the error of the first member that has no result.
   */
  results(options?: WaitOptions): Promise<ReadonlyArray<R>>
}

/** Fields of the body of a chord. */
export interface BodyFields extends Omit<SubmissionFields, "chord" | "group"> {
  /**
   * Whether the body starts also where members fail: it then gets `{ job, state }` in place of their results. Defaults
   * to false.
   */
  readonly allowFailure?: boolean
  /** Whether the body gets its own arguments alone, without the results before them. Defaults to false. */
  readonly immutable?: boolean
}

/** {@link BodyFields} with the name of the task. */
export interface BodyTask extends BodyFields {
  readonly task: string
}

export interface GroupOptions {
  /** Name of the group. Defaults to a new id. */
  readonly id?: string | undefined
}

/** The operations of the client that a group needs. */
export interface GroupClient {
  submit(task: string, fields: SubmissionFields): Promise<SubmittedJob>
  submitMany(submissions: ReadonlyArray<Submission>): Promise<ReadonlyArray<SubmittedJob | CallboardError>>
  handle(id: string): GroupHandle
}

/** Tasks of a group that are not submitted yet. */
export class PendingGroup {
  readonly #tasks: ReadonlyArray<Submission>
  readonly #options: GroupOptions
  readonly #client: GroupClient

  constructor(tasks: ReadonlyArray<Submission>, options: GroupOptions, client: GroupClient) {
    if (!Array.isArray(tasks)) refuseInput("tasks", "must be a list of tasks, or the name of a group")
    if (tasks.length === 0 || tasks.length > MAX_MEMBERS) {
      refuseInput("tasks", `a group has 1 to ${MAX_MEMBERS} tasks, not ${tasks.length}`)
    }
    refuseUnknown(options, { id: true } satisfies Record<keyof GroupOptions, true>, "group()")
    this.#tasks = tasks
    this.#options = options
    this.#client = client
  }

  /**
   * Submits the tasks together with the body, which waits for all of them and gets the list of their results before its own
   * arguments: `.then("report.sum", { input })` or `.then({ task: "report.sum", input })`. Fails as `submit` of the client does.
   */
  then(body: string | BodyTask, fields: BodyFields = {}): Promise<SubmittedJob> {
    if (typeof body === "string") return this.#chord(body, fields)
    // `await` on the group itself comes here as well, with two functions.
    if (!isObject(body)) refuseInput("then", "name the body, or submit the group without one with .submit()")
    const { task, ...own } = body
    return this.#chord(task, { ...own, ...fields })
  }

  #chord(task: string, { allowFailure, immutable, ...fields }: BodyFields): Promise<SubmittedJob> {
    const { id } = this.#options
    const chord = {
      tasks: this.#tasks,
      ...compact({ group: id, allowFailure, immutable }),
    }
    return this.#client.submit(task, { ...fields, chord })
  }

  /** Submits the tasks alone. Fails with the first error; the tasks before and after it may have been accepted. */
  async submit(): Promise<SubmittedGroup> {
    const { id = generateId() } = this.#options
    const answers = await this.#client.submitMany(this.#tasks.map((task) => ({ ...task, group: id })))
    const members: Array<SubmittedJob> = []
    for (const answer of answers) {
      if (answer instanceof CallboardError) throw answer
      members.push(answer)
    }
    return {
      ...this.#client.handle(id),
      members,
      results: async ({ timeout, ...options } = {}) => {
        const until = timeout === undefined ? undefined : performance.now() + milliseconds("timeout", timeout)
        const results: Array<unknown> = []
        for (const member of members) {
          // What is left of the time that all of them have together.
          const left = until === undefined ? {} : { timeout: Math.max(0, Math.ceil(until - performance.now())) / 1_000 }
          results.push(await member.result({ ...options, ...left }))
        }
        return results
      },
    }
  }
}

/** Fails with `invalid-input` for inputs that are no list, which callers in JavaScript may give. */
export const checkInputs = (inputs: unknown): void => {
  if (!Array.isArray(inputs)) refuseInput("inputs", "must be a list with the input of each task")
}

/** One task for each `size` inputs, which gets them as a list. Fails with `invalid-input`. */
export const inChunks = (inputs: ReadonlyArray<unknown>, size: number): ReadonlyArray<ReadonlyArray<unknown>> => {
  checkInputs(inputs)
  wholeNumber("size", size, { min: 1 })
  return Array.from({ length: Math.ceil(inputs.length / size) }, (_, at) => inputs.slice(at * size, (at + 1) * size))
}
