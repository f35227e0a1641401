/** Checks tasks with `after`: the jobs that they wait for must exist, and the transport must take the task later. */
import { Result } from "effect"
import type { Connection } from "../../connection/connection.ts"
import { CallboardError } from "../../errors.ts"
import { encodeEnvelope } from "../../protocol/envelope.ts"
import { OWN_HEADER, parseTask, type Task } from "../../protocol/headers.ts"
import type { AddressedTask, Message } from "../../protocol/message.ts"
import { isPlainObject } from "../../protocol/value.ts"
import { findAll } from "./find-all.ts"

/** A task that waits for other jobs. */
export interface DeferredTask {
  readonly posting: AddressedTask
  readonly task: Task
  /** Ids of the jobs that it waits for. */
  readonly parents: ReadonlyArray<string>
}

/** Whether a submitted task waits for other jobs. Called for each submission, so it parses as little as possible. */
export const isDeferred = ({ headers }: Message): boolean => {
  const own = headers[OWN_HEADER]
  return typeof own === "object" && own !== null && isPlainObject(own) && "after" in own
}

/** The first task that waits for a later task of the same list: tasks are accepted in order, so it would be refused. */
export const firstBeforeItsParent = (
  postings: ReadonlyArray<AddressedTask>,
): { readonly index: number; readonly error: CallboardError } | undefined => {
  if (!postings.some(({ message }) => isDeferred(message))) return undefined
  const positions = new Map(postings.map(({ id }, index) => [id, index]))
  for (const [index, posting] of postings.entries()) {
    const later = isDeferred(posting.message)
      ? deferredTaskOf(posting).parents.find((id) => (positions.get(id) ?? -1) > index)
      : undefined
    if (later !== undefined)
      return {
        index,
        error: invalidAfter(`job ${later} comes later in the list; put it before those that wait for it`),
      }
  }
  return undefined
}

/** The acceptable tasks, and by id why each other one is refused. */
export interface CheckedTasks {
  readonly acceptable: ReadonlyArray<DeferredTask>
  readonly refused: ReadonlyMap<string, CallboardError>
}

/**
 * Checks tasks that wait for other jobs. A task that waits for another task of the list comes after it. `accepted`: ids of
 * jobs that are known to exist and are not looked up. Fails as the transport does.
 */
export const checkAll = async (
  connection: Connection,
  postings: ReadonlyArray<AddressedTask>,
  accepted: ReadonlySet<string>,
): Promise<CheckedTasks> => {
  const jobs = postings.map(deferredTaskOf)
  const submittedTogether = new Set(postings.map(({ id }) => id))
  const asked = jobs.flatMap(({ parents }) => parents.filter((id) => !accepted.has(id) && !submittedTogether.has(id)))
  const found = await findAll(connection.jobs, asked, () => true)
  const known = new Set([...accepted, ...found.keys()])
  const acceptable: Array<DeferredTask> = []
  const refused = new Map<string, CallboardError>()
  for (const job of jobs) {
    const { id } = job.posting
    const problem = problemOf(connection, job, known)
    if (problem === undefined) {
      known.add(id)
      acceptable.push(job)
    } else refused.set(id, problem)
  }
  return { acceptable, refused }
}

const deferredTaskOf = (posting: AddressedTask): DeferredTask => {
  const task = parseTask(posting.message)
  // The planner made these headers a moment ago, so they parse.
  if (Result.isFailure(task)) throw new Error(task.failure.message)
  return { posting, task: task.success, parents: task.success.own.after?.ids ?? [] }
}

const problemOf = (
  { transport }: Connection,
  { posting, parents }: DeferredTask,
  known: ReadonlySet<string>,
): CallboardError | undefined => {
  const { id, message } = posting
  const unknown = parents.find((parent) => !known.has(parent))
  if (unknown !== undefined) {
    return invalidAfter(
      `there is no job ${unknown}; one that ended long ago is not known any more and need not be waited for`,
      id,
    )
  }
  // The task is published only when the job is released. A task that the transport can never take must be refused now.
  const frame = encodeEnvelope(message)
  if (Result.isFailure(frame)) return new CallboardError("invalid-input", frame.failure.message, { id })
  const { maxTask } = transport.capabilities
  if (frame.success.length <= maxTask) return undefined
  const why = `the task has ${frame.success.length} bytes, and transport ${transport.name} takes ${maxTask}`
  return new CallboardError("too-large", why, { id })
}

/** An `invalid-input` about the field `after`. `id`: the refused job. */
export const invalidAfter = (why: string, id?: string): CallboardError =>
  new CallboardError("invalid-input", `after: ${why}`, { field: "after", ...(id === undefined ? {} : { id }) })
