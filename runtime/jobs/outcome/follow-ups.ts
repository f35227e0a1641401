/**
 * The follow-ups of a job: callbacks and the next link of a chain after a success, errbacks after a failure. The postings are
 * complete, with their ids, before the record with the outcome is stored, so that any worker can publish them again.
 *
 * Rules of Celery 5.6: a callback gets the result before its own arguments; of a chain the last signature is taken off
 * and carries the rest; root is handed down, the ended job is the parent. An errback gets request, error and traceback.
 */
import * as Result from "effect/Result"
import type { Connection } from "../../connection/connection.ts"
import { hideAll, type Redaction } from "../../log/redaction.ts"
import { type Embed, NO_EMBED } from "../../protocol/body.ts"
import { type PlainFollowUps, plainFollowUps } from "../../protocol/celery/canvas.ts"
import {
  type Application,
  applySignature,
  type Signature,
  type SignatureTask,
  taskOfSignature,
} from "../../protocol/celery/signature.ts"
import { composeMessage } from "../../protocol/compose.ts"
import { LANG, type MemberHeader, type OwnHeaders, postingOfTask, type Task } from "../../protocol/headers.ts"
import type { JobPosting } from "../../protocol/message.ts"
import type { JobError } from "../../protocol/record.ts"
import type { TraceContext } from "../../protocol/trace-context.ts"

/** The job that ended, and what its follow-ups need from outside. */
export interface Ended {
  readonly task: Task
  /** Queue of follow-ups that name none. */
  readonly queueFor: (task: string, meth: string | null) => string
  /** What the method of a task hides, where that is known. Absent: of no method. */
  readonly redactFor?: (task: string, meth: string | null) => Redaction["redact"]
  readonly newId: () => string
  readonly now: number
  /** W3C trace context for the follow-ups. */
  readonly trace: TraceContext | undefined
  /** Its follow-ups are Celery's as well: they have no header of ours, and an errback gets the id of the job alone. */
  readonly isExternal?: boolean
  /** The priority of a follow-up by the number in its signature. Absent: that number. */
  readonly priorityOf?: (given: number | null) => number | null
}

/**
 * Why the follow-ups of job `id` cannot be submitted. Checked before the handler runs, so that none is dropped after
 * it. `countsChords`: whether the members of a chord are counted in Celery's result back end.
 */
export const embedProblem = (embed: Embed, id: string, countsChords = false): string | undefined =>
  embed === NO_EMBED ? undefined : problemOf(embed, id, countsChords)

const problemOf = (embed: Embed, id: string, countsChords: boolean): string | undefined => {
  // Celery's clients leave the number of tasks in their result backend, and no message of a chord says it.
  if (embed.chord !== null && !countsChords)
    return "Celery chords are not supported, because their messages do not contain the number of tasks; submit the body with `chord`"
  // An id names one job: a second follow-up with the same id would count as a duplicate and never run.
  const onSuccess = new Set([id])
  const onFailure = new Set([id])
  const plain = plainFollowUps(embed, countsChords)
  if (Result.isFailure(plain)) return plain.failure
  if (embed.chord !== null) {
    const body = plainFollowUps({ callbacks: [embed.chord], errbacks: null, chain: null }, countsChords)
    if (Result.isFailure(body)) return `chord: ${body.failure}`
    const problem = body.success.callbacks?.map((each) => signatureProblem(each, countsChords)).find(Boolean)
    if (problem !== undefined) return `chord: ${problem}`
  }
  const { callbacks, errbacks, chain } = plain.success
  for (const [field, signatures, taken] of [
    ["callbacks", callbacks, onSuccess],
    ["errbacks", errbacks, onFailure],
    ["chain", chain, onSuccess],
  ] as const) {
    for (const [at, signature] of (signatures ?? []).entries()) {
      const isLater = countsChords && (signature.subtask_type === "group" || signature.subtask_type === "chord")
      const problem = isLater ? undefined : signatureProblem(signature, countsChords)
      if (problem !== undefined) return `${field}[${at}]: ${problem}`
      const { task_id: own } = signature.options
      if (typeof own !== "string" || own === "") continue
      if (taken.has(own)) return `${field}[${at}]: options.task_id is the id of ${own === id ? "this" : "another"} job`
      taken.add(own)
    }
  }
  return undefined
}

const signatureProblem = (signature: Signature, countsChords: boolean): string | undefined => {
  if (signature.subtask_type !== null && signature.subtask_type !== "task")
    return `a ${signature.subtask_type} is not supported here`
  const checked = taskOfSignature(signature, { id: "check", now: 0 })
  if (Result.isFailure(checked)) return checked.failure.message
  return checked.success.chord === null || countsChords ? undefined : "chords are not supported"
}

/** Callbacks and the next link of the chain. `result`: in its JSON form, which JSON bodies take as the value. */
export const afterSuccess = (embed: Embed, result: unknown, ended: Ended): ReadonlyArray<JobPosting> => {
  if (embed === NO_EMBED) return []
  const args = [result ?? null]
  const { callbacks, chain: links } = plainOf(embed, ended)
  const postings = inOneGroup(callbacks ?? [], ended).map((callback) => posted(callback, { args }, ended))
  const chain = links ?? []
  const next = chain.at(-1)
  if (next !== undefined) {
    const rest = chain.slice(0, -1)
    const { member } = ended.task.own
    const place = member === undefined ? {} : { member: linkOf(member, rest.length > 0) }
    postings.push(posted(next, { args, options: { chain: rest } }, ended, { ...place, link: true }))
  }
  return postings
}

/** Celery submits the callbacks of a task as one group, unless there is only one. */
const inOneGroup = (callbacks: ReadonlyArray<Signature>, { isExternal, newId }: Ended): ReadonlyArray<Signature> => {
  const isAlone = ({ options }: Signature): boolean => typeof options.group_id !== "string"
  if (!isExternal || callbacks.filter(isAlone).length < 2) return callbacks
  const group_id = newId()
  let index = 0
  return callbacks.map((callback) =>
    isAlone(callback) ? { ...callback, options: { ...callback.options, group_id, group_index: index++ } } : callback,
  )
}

/** Every embed was taken apart once before the handler ran. */
const plainOf = (embed: Embed, { isExternal }: Ended): PlainFollowUps =>
  Result.getOrElse(plainFollowUps(embed, isExternal), (why) => {
    throw new Error(why)
  })

/** The place in a chord of a chain's next link, which is that of the link before. `more`: it is not the last one. */
const linkOf = ({ of, at }: MemberHeader, more: boolean): MemberHeader => (more ? { of, at, more } : { of, at })

/** Errbacks: each gets the request, the error and the traceback. */
export const afterFailure = (embed: Embed, error: JobError, ended: Ended): ReadonlyArray<JobPosting> => {
  if (embed === NO_EMBED) return []
  const { task } = ended
  const request = {
    id: task.id,
    task: task.task,
    meth: task.meth,
    retries: task.retries,
    root_id: task.rootId,
    parent_id: task.parentId,
    group: task.group,
    headers: task.custom,
  }
  const { traceback = null, ...told } = error
  const args = ended.isExternal ? [task.id] : [request, told, traceback]
  return (plainOf(embed, ended).errbacks ?? []).map((errback) => posted(errback, { args }, ended))
}

const posted = (
  signature: Signature,
  application: Application,
  ended: Ended,
  own: OwnHeaders | undefined = undefined,
): JobPosting => {
  const applied = applySignature(signature, application)
  const read = taskOfSignature(applied, {
    id: ended.newId(),
    now: ended.now,
    rootId: ended.task.rootId ?? ended.task.id,
    parentId: ended.task.id,
  })
  // Every signature was read once before the handler ran.
  if (Result.isFailure(read)) throw new Error(read.failure.message)
  const posting = postingOf(read.success, applied, ended, own)
  if (Result.isFailure(posting)) throw new Error(posting.failure.message)
  return posting.success
}

const postingOf = (
  next: SignatureTask,
  applied: Signature,
  ended: Ended,
  own: OwnHeaders | undefined,
): Result.Result<JobPosting, { readonly message: string }> => {
  const meth = typeof applied.meth === "string" ? applied.meth : null
  const { task: before, redactFor = () => undefined } = ended
  // Its arguments may hold what the job before it has got, or has made of that.
  const hidden = [redactFor(before.task, before.meth), redactFor(next.task.task, meth)]
  const redact = hideAll(before.own.redact, next.task.own.redact, ...hidden)
  const task: Task = {
    ...next.task,
    lang: LANG,
    meth,
    // The links of a chain that is a member of a chord belong to its group.
    ...(own?.member === undefined ? {} : { group: ended.task.group, groupIndex: ended.task.groupIndex }),
    origin: ended.task.origin,
    traceparent: ended.trace?.traceparent ?? null,
    tracestate: ended.trace?.tracestate ?? null,
    own: {
      ...next.task.own,
      ...(ended.isExternal ? {} : { submittedAt: ended.now }),
      ...(redact === undefined ? {} : { redact }),
      ...own,
    },
  }
  const { callbacks, errbacks, chain, chord } = next
  const nothing = callbacks === null && errbacks === null && (chain === null || chain.length === 0) && chord === null
  const embed = nothing ? NO_EMBED : { callbacks, errbacks, chain, chord }
  const priority = ended.priorityOf === undefined ? next.priority : ended.priorityOf(next.priority)
  const options = {
    ...(priority === null ? {} : { priority }),
    ...(next.replyTo === null ? {} : { replyTo: next.replyTo }),
  }
  const message = composeMessage(task, { args: applied.args, kwargs: applied.kwargs, embed }, options)
  if (Result.isFailure(message)) return Result.fail(message.failure)
  const posting = postingOfTask(task, message.success, next.queue ?? ended.queueFor(task.task, meth))
  if (!ended.isExternal || Result.isFailure(posting)) return posting
  // A worker of Celery may be the only one that takes tasks from its queue: it gets the task at once, and waits until it is due.
  const { due: _due, ...atOnce } = posting.success
  return Result.succeed(atOnce)
}

/**
 * Publishes the postings whose job does not exist yet. One that the transport refuses for good is left out. Fails as
 * the transport does otherwise.
 */
export const postMissing = async ({ jobs }: Connection, postings: ReadonlyArray<JobPosting>): Promise<void> => {
  for (const posting of postings) {
    if ((await jobs.find(posting.id)) !== undefined) continue
    const [receipt] = await jobs.publish([posting])
    if (receipt?.status === "failed" && receipt.error.retryable) throw receipt.error
  }
}
