/** Tasks that follow a task: callbacks, errbacks and the links of a chain, as they are given and as they travel. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { milliseconds, timeLimitOf } from "../../options/duration.ts"
import { Duration, TimeLimitField } from "../../options/duration-field.ts"
import { JobId, Json, Name, whole } from "../../options/fields.ts"
import { refuseInput as refuse } from "../../options/refuse.ts"
import { RetryField, retryHeader } from "../../options/retry-policy.ts"
import { type Embed, NO_EMBED } from "../../protocol/body.ts"
import type { Signature } from "../../protocol/celery/signature.ts"
import { isObject } from "../../protocol/guards.ts"
import type { MemberHeader } from "../../protocol/headers.ts"
import { bodyOfInput } from "../../protocol/input.ts"
import { checkQueueName } from "../../protocol/name.ts"
import { parseTime } from "../../protocol/time.ts"
import type { Promised } from "../tracking/promises.ts"

/** The fields of a task that follows another. */
const fields = {
  task: Name.annotate({ description: "Actor and method: `text.count`" }),
  meth: Schema.optionalKey(Name),
  input: Schema.optionalKey(Schema.Unknown),
  args: Schema.optionalKey(Schema.Array(Schema.Unknown)),
  kwargs: Schema.optionalKey(Json),
  id: Schema.optionalKey(JobId),
  queue: Schema.optionalKey(Name),
  priority: Schema.optionalKey(whole({ min: 0, max: 9 })),
  delay: Schema.optionalKey(Duration),
  immutable: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "Do not prepend the result (or the error) to its own arguments" }),
  ),
  expires: Schema.optionalKey(
    Schema.Union([Schema.Finite, Schema.String]).annotate({
      description: "The latest start: a time (ISO 8601), or a duration from its submission",
    }),
  ),
  timeLimit: Schema.optionalKey(TimeLimitField),
  retry: Schema.optionalKey(RetryField),
}

/** Most members of a chord within a chain: the tasks of all are stored with the outcome of the link before. */
const MAX_IN_CHAIN = 1_000

const LastFollowUps = Schema.Array(Schema.Struct(fields).annotate({ identifier: "LastFollowUp" }))

/** A task that follows another: a callback, an errback or a link of a chain. */
const FollowUpSchema = Schema.Struct({
  ...fields,
  chord: Schema.optionalKey(
    LastFollowUps.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_IN_CHAIN)).annotate({
      description:
        "On a link: a group that starts in its place, each member with the result of the link before; this task then gets the list of their results",
    }),
  ),
  errbacks: Schema.optionalKey(
    LastFollowUps.check(Schema.isMaxLength(100)).annotate({
      description: "Submitted when it fails, in addition to the errbacks that the links of a chain inherit",
    }),
  ),
}).annotate({ identifier: "FollowUp" })
export type FollowUp = typeof FollowUpSchema.Type

/** Members of a chord, which follow a job or the last link of its chain. */
export interface FanOut {
  readonly group: string
  readonly tasks: ReadonlyArray<{ readonly task: FollowUp; readonly member: MemberHeader }>
}

/**
 * More follow-ups than this are refused, in one list and with what a chain's links inherit: a chain travels with each
 * of its links.
 */
const MAX_FOLLOW_UPS = 10_000
export const FollowUps = Schema.Array(FollowUpSchema).check(Schema.isMaxLength(MAX_FOLLOW_UPS))

interface Lists {
  readonly callbacks?: ReadonlyArray<FollowUp>
  readonly errbacks?: ReadonlyArray<FollowUp>
  readonly chain?: ReadonlyArray<FollowUp>
}

/** Refuses follow-ups that could not all be submitted; `own` is the id of the job that they follow. */
export const checkFollowUps = (lists: Lists, own: string): void => {
  const { callbacks, chain = [], errbacks = [] } = lists
  if (callbacks === undefined && chain.length === 0 && errbacks.length === 0) return
  checkIds(lists, own)
  if (chain.length * errbacks.length > MAX_FOLLOW_UPS) {
    refuse(
      "errbacks",
      `apply to each link of the chain: ${chain.length} × ${errbacks.length} is more than ${MAX_FOLLOW_UPS}`,
    )
  }
}

/** An id names one job: a second follow-up with the same id would count as a duplicate and never be submitted. */
const checkIds = (lists: Lists, own: string): void => {
  const { callbacks = [], errbacks = [], chain = [] } = lists
  const known = new Set([own])
  const check = (field: string, id: string | undefined) => {
    if (id === undefined) return
    if (known.has(id)) refuse(`${field}.id`, "is the id of another job of this submission")
    known.add(id)
  }
  for (const [list, followUps] of Object.entries({ callbacks, errbacks, chain })) {
    for (const [at, { id, errbacks: after = [] }] of followUps.entries()) {
      check(`${list}[${at}]`, id)
      for (const [place, errback] of after.entries()) check(`${list}[${at}].errbacks[${place}]`, errback.id)
    }
  }
}

interface FollowedUp {
  readonly callbacks?: ReadonlyArray<FollowUp>
  readonly chain?: ReadonlyArray<FollowUp>
}

/**
 * The task, and the ids that it promises: those of its callbacks and of links of its chain that the caller has named. A
 * link before such a one gets an id as well: where the chain breaks there, its job shows why the later one does not
 * come.
 */
export const withPromises = <S extends FollowedUp>(
  submission: S,
  id: string,
): { readonly submission: S; readonly promised: ReadonlyArray<Promised> } => {
  const { callbacks = [], chain = [] } = submission
  const promised: Array<Promised> = callbacks.flatMap((callback) =>
    callback.id === undefined ? [] : [[id, callback.id]],
  )
  if (!chain.some((link) => link.id !== undefined)) return { submission, promised }
  const links = chain.map((link, n) => ({ ...link, id: link.id ?? `${id}-c${n + 1}` }))
  let before = [id]
  for (const [n, link] of links.entries()) {
    before.push(link.id)
    if (chain[n]?.id === undefined) continue
    promised.push(before)
    before = [link.id]
  }
  return { submission: { ...submission, chain: links }, promised }
}

/** Follow-ups as Celery's signatures: what travels in the body. */
export const embedOf = (lists: Lists, fanOut?: FanOut): Embed => {
  const { callbacks, errbacks, chain } = lists
  if (callbacks === undefined && errbacks === undefined && chain === undefined && fanOut === undefined) return NO_EMBED
  const onError = errbacks?.map((errback, at) => signatureOf(errback, `errbacks[${at}]`)) ?? null
  // As a Celery client does: a chain's errbacks are on each of its links, since any of them may fail.
  const links = chain?.map((link, at) => signatureOf(link, `chain[${at}]`, onError ?? [])) ?? null
  const members = fanOut?.tasks.map(({ task, member }, at) => {
    const signature = signatureOf(task, `chord[${at}]`, onError ?? [])
    const options = { ...signature.options, group_id: fanOut.group, group_index: member.at }
    return { ...signature, options: { ...options, callboard: { ...own(signature), member } } }
  })
  const last = links?.pop()
  if (last !== undefined) {
    links?.push(members === undefined ? last : { ...last, options: { ...last.options, link: members } })
  }
  const after = callbacks?.map((callback, at) => signatureOf(callback, `callbacks[${at}]`))
  return {
    callbacks: last === undefined && members !== undefined ? [...(after ?? []), ...members] : (after ?? null),
    errbacks: onError,
    // On the wire the next one is last.
    chain: links?.reverse() ?? null,
    chord: null,
  }
}

/** Callboard's own options of a signature. */
const own = ({ options: { callboard } }: Signature): object => (isObject(callboard) ? callboard : {})

/** `expires` as a signature has it: seconds from when it is submitted, or a time. */
const expiresOf = (field: string, expires: number | string): number | string =>
  typeof expires === "string" && Result.isSuccess(parseTime(expires)) ? expires : milliseconds(field, expires) / 1000

/** `inherited`: errbacks that the follow-up has beside its own. */
const signatureOf = (followUp: FollowUp, field: string, inherited: ReadonlyArray<Signature> = []): Signature => {
  if (followUp.chord !== undefined) refuse(`${field}.chord`, "is only for links of a chain that is submitted now")
  const given = bodyOfInput(followUp)
  if (Result.isFailure(given)) return refuse(`${field}.${given.failure.field}`, given.failure.message)
  if (followUp.queue !== undefined) {
    const checked = checkQueueName(followUp.queue)
    if (Result.isFailure(checked)) refuse(`${field}.queue`, checked.failure.message)
  }
  const { errbacks = [], timeLimit, retry, expires } = followUp
  const onError = [...inherited, ...errbacks.map((errback, at) => signatureOf(errback, `${field}.errbacks[${at}]`))]
  const countdown = followUp.delay === undefined ? undefined : milliseconds(`${field}.delay`, followUp.delay) / 1000
  const lasts = expires === undefined ? undefined : expiresOf(`${field}.expires`, expires)
  if (typeof lasts === "number" && countdown !== undefined && lasts <= countdown)
    refuse(`${field}.expires`, "passes before the task can start")
  const refuseBelow = (name: string, why: string): never => refuse(`${field}.${name}`, why)
  const { hardMs, softMs } = timeLimit === undefined ? {} : timeLimitOf(timeLimit, "timeLimit.", refuseBelow)
  return {
    task: followUp.task,
    ...(followUp.meth === undefined ? {} : { meth: followUp.meth }),
    args: given.success.args,
    kwargs: given.success.kwargs,
    options: {
      ...(onError.length === 0 ? {} : { link_error: onError }),
      ...(hardMs === undefined ? {} : { time_limit: hardMs / 1000 }),
      ...(softMs === undefined ? {} : { soft_time_limit: softMs / 1000 }),
      ...(lasts === undefined ? {} : { expires: lasts }),
      ...(retry === undefined ? {} : { callboard: { retry: retryHeader(retry, refuseBelow) } }),
      ...(followUp.id === undefined ? {} : { task_id: followUp.id }),
      ...(followUp.queue === undefined ? {} : { queue: followUp.queue }),
      ...(followUp.priority === undefined ? {} : { priority: followUp.priority }),
      ...(countdown === undefined ? {} : { countdown }),
    },
    subtask_type: null,
    immutable: followUp.immutable ?? false,
  }
}
