/**
 * Submits jobs that wait for others: first the edges, then the record that holds the whole task, and only then a look at
 * those that they wait for. So whoever ends one of them either finds the edge, or has ended it before that look. Who dies
 * in between has accepted nothing, or leaves a job that a sweep moves on.
 */
import { Result } from "effect"
import type { Board } from "../board.ts"
import { asTransportError, CallboardError } from "../errors.ts"
import { deferred, type Ending, endingOf } from "../protocol/dependencies.ts"
import { encodeEnvelope } from "../protocol/envelope.ts"
import { type AfterHeader, OWN_HEADER, parseTask } from "../protocol/headers.ts"
import type { Message, Posting } from "../protocol/message.ts"
import { isPlainObject } from "../protocol/value.ts"
import { TransportError } from "../transport.ts"
import { writeEdges } from "./edges.ts"
import { findAll } from "./find-all.ts"
import { progress } from "./progress.ts"

/** Whether a task that was just submitted waits for others. Cheap: every submission is asked. */
export const isDeferred = ({ headers }: Message): boolean => {
  const own = headers[OWN_HEADER]
  return typeof own === "object" && own !== null && isPlainObject(own) && "after" in own
}

/** The first that waits for one that comes after it: in that order nobody could accept it. */
export const tooEarly = (
  postings: ReadonlyArray<Posting>,
): { readonly index: number; readonly error: CallboardError } | undefined => {
  if (!postings.some(({ message }) => isDeferred(message))) return undefined
  const places = new Map(postings.map(({ id }, index) => [id, index]))
  for (const [index, posting] of postings.entries()) {
    const later = afterOf(posting)?.ids.find((id) => (places.get(id) ?? -1) > index)
    if (later === undefined) continue
    const message = `after: job ${later} comes later in the list; put it before those that wait for it`
    return { index, error: new CallboardError("invalid-input", message, { field: "after" }) }
  }
  return undefined
}

/** `conflict`: something is stored under its id already. */
export type Deferred = "deferred" | "conflict" | CallboardError | TransportError

/**
 * One answer per posting, in order. `accepted`: jobs that are known to be there, and need not be looked for. A job that
 * nobody knows fails with `invalid-input`, field `after`. Never rejects.
 */
export const defer = async (
  board: Board,
  postings: ReadonlyArray<Posting>,
  accepted: ReadonlySet<string>,
): Promise<ReadonlyArray<Deferred>> => {
  const answers: Array<Deferred> = []
  try {
    const known = await knownParents(board, postings, accepted)
    const fit: Array<{ readonly at: number; readonly posting: Posting; readonly after: AfterHeader }> = []
    for (const [at, posting] of postings.entries()) {
      const checked = check(board, posting, known)
      if (Result.isFailure(checked)) answers[at] = checked.failure
      else {
        fit.push({ at, posting, after: checked.success })
        known.add(posting.id)
      }
    }
    const now = Date.now()
    await writeEdges(
      board.store,
      fit.flatMap(({ posting, after }) => after.ids.map((parent) => ({ parent, child: posting.id }))),
      now,
    )
    const stored = await store(
      board,
      fit.map(({ posting }) => posting),
      now,
    )
    for (const [index, { at }] of fit.entries()) answers[at] = stored[index] ?? lost()
    await look(
      board,
      fit.filter(({ at }) => answers[at] === "deferred"),
    )
  } catch (cause) {
    const error = asTransportError(cause)
    for (const at of postings.keys()) answers[at] ??= error
  }
  return answers
}

/** What those stand like that they wait for, and what becomes of them: at most a moment after they were accepted. */
const look = async (
  board: Board,
  jobs: ReadonlyArray<{ readonly posting: Posting; readonly after: AfterHeader }>,
): Promise<void> => {
  try {
    const found = await findAll(
      board.records,
      jobs.flatMap(({ after }) => after.ids),
    )
    const children = new Map(
      jobs.map(({ posting, after }) => [
        posting.id,
        new Map<string, Ending>(after.ids.map((id) => [id, endingOf(found.get(id)?.record)])),
      ]),
    )
    await progress(board, children)
  } catch {
    // They are accepted: a sweep finds out how those stand that they wait for.
  }
}

const knownParents = async (
  board: Board,
  postings: ReadonlyArray<Posting>,
  accepted: ReadonlySet<string>,
): Promise<Set<string>> => {
  const together = new Set(postings.map(({ id }) => id))
  const asked = postings
    .flatMap((posting) => afterOf(posting)?.ids ?? [])
    .filter((id) => !accepted.has(id) && !together.has(id))
  const found = await findAll(board.records, asked)
  return new Set([...accepted, ...found.keys()])
}

const afterOf = ({ message }: Posting): AfterHeader | undefined =>
  isDeferred(message) ? Result.getOrUndefined(parseTask(message))?.own.after : undefined

const check = (
  { transport }: Board,
  posting: Posting,
  known: ReadonlySet<string>,
): Result.Result<AfterHeader, CallboardError> => {
  const { id } = posting
  const after = afterOf(posting)
  if (after === undefined)
    return Result.fail(new CallboardError("invalid-input", "after: names no job", { field: "after" }))
  const unknown = after.ids.find((parent) => !known.has(parent))
  if (unknown !== undefined) {
    return Result.fail(
      new CallboardError(
        "invalid-input",
        `after: there is no job ${unknown}; one that ended long ago is not known any more and need not be waited for`,
        { id, field: "after" },
      ),
    )
  }
  const frame = encodeEnvelope(posting.message)
  const { maxTask } = transport.capabilities
  // Its task is posted when it is released: it must not turn out only then that nobody takes it.
  if (Result.isSuccess(frame) && frame.success.length > maxTask) {
    const message = `the task has ${frame.success.length} bytes, and transport ${transport.name} takes ${maxTask}`
    return Result.fail(new CallboardError("too-large", message, { id }))
  }
  return Result.succeed(after)
}

const store = async (
  { records }: Board,
  postings: ReadonlyArray<Posting>,
  now: number,
): Promise<ReadonlyArray<Deferred>> => {
  const tasks = postings.map(({ message }) => parseTask(message))
  const changes = postings.flatMap((posting, at) => {
    const task = tasks[at]
    if (task === undefined || Result.isFailure(task)) return []
    return [{ id: posting.id, expect: "", record: deferred(posting, task.success, now) }]
  })
  const changed = await records.change(changes)
  return changed.map((answer) =>
    answer.status === "changed" ? "deferred" : answer.status === "conflict" ? "conflict" : answer.error,
  )
}

const lost = (): TransportError =>
  new TransportError("internal", "the transport gave no answer", { outcome: "unknown" })
