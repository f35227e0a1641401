/** Tasks that follow a task: callbacks, errbacks and the links of a chain, as they are given and as they travel. */
import { Result, Schema } from "effect"
import { Duration, milliseconds } from "../../options/duration.ts"
import { JobId, Json, Name } from "../../options/fields.ts"
import { refuseInput as refuse } from "../../options/refuse.ts"
import { type Embed, NO_EMBED } from "../../protocol/body.ts"
import type { Signature } from "../../protocol/celery/signature.ts"
import { bodyOfInput } from "../../protocol/input.ts"
import { checkQueueName } from "../../protocol/name.ts"

/** A task that follows another: a callback, an errback or a link of a chain. */
const FollowUpSchema = Schema.Struct({
  task: Name.annotate({ description: "Actor and method: `text.count`" }),
  meth: Schema.optionalKey(Name),
  input: Schema.optionalKey(Schema.Unknown),
  args: Schema.optionalKey(Schema.Array(Schema.Unknown)),
  kwargs: Schema.optionalKey(Json),
  id: Schema.optionalKey(JobId),
  queue: Schema.optionalKey(Name),
  priority: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 }))),
  delay: Schema.optionalKey(Duration),
  immutable: Schema.optionalKey(
    Schema.Boolean.annotate({ description: "Does not get the result (or the error) before its own arguments" }),
  ),
}).annotate({ identifier: "FollowUp" })
type FollowUp = typeof FollowUpSchema.Type

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
  checkIds(lists, own)
  const { chain = [], errbacks = [] } = lists
  if (chain.length * errbacks.length > MAX_FOLLOW_UPS) {
    refuse(
      "errbacks",
      `are on each link of the chain: ${chain.length} × ${errbacks.length} are more than ${MAX_FOLLOW_UPS}`,
    )
  }
}

/** An id names one job: a second follow-up with the same id would count as a duplicate and never be submitted. */
const checkIds = (lists: Lists, own: string): void => {
  const { callbacks = [], errbacks = [], chain = [] } = lists
  const known = new Set([own])
  for (const [list, followUps] of Object.entries({ callbacks, errbacks, chain })) {
    for (const [at, { id }] of followUps.entries()) {
      if (id === undefined) continue
      if (known.has(id)) refuse(`${list}[${at}].id`, "is the id of another job of this submission")
      known.add(id)
    }
  }
}

/** Follow-ups as Celery's signatures: what travels in the body. */
export const embedOf = (lists: Lists): Embed => {
  const { callbacks, errbacks, chain } = lists
  if (callbacks === undefined && errbacks === undefined && chain === undefined) return NO_EMBED
  const onError = errbacks?.map((errback, at) => signatureOf(errback, `errbacks[${at}]`)) ?? null
  // As a Celery client does: a chain's errbacks are on each of its links, since any of them may fail.
  const inherited = onError === null ? {} : { link_error: onError }
  const links = chain?.map((link, at) => signatureOf(link, `chain[${at}]`, inherited)) ?? null
  return {
    callbacks: callbacks?.map((callback, at) => signatureOf(callback, `callbacks[${at}]`)) ?? null,
    errbacks: onError,
    // On the wire the next one is last.
    chain: links?.reverse() ?? null,
    chord: null,
  }
}

const signatureOf = (followUp: FollowUp, field: string, options: Signature["options"] = {}): Signature => {
  const given = bodyOfInput(followUp)
  if (Result.isFailure(given)) return refuse(`${field}.${given.failure.field}`, given.failure.message)
  if (followUp.queue !== undefined) {
    const checked = checkQueueName(followUp.queue)
    if (Result.isFailure(checked)) refuse(`${field}.queue`, checked.failure.message)
  }
  return {
    task: followUp.task,
    ...(followUp.meth === undefined ? {} : { meth: followUp.meth }),
    args: given.success.args,
    kwargs: given.success.kwargs,
    options: {
      ...options,
      ...(followUp.id === undefined ? {} : { task_id: followUp.id }),
      ...(followUp.queue === undefined ? {} : { queue: followUp.queue }),
      ...(followUp.priority === undefined ? {} : { priority: followUp.priority }),
      ...(followUp.delay === undefined ? {} : { countdown: milliseconds(`${field}.delay`, followUp.delay) / 1000 }),
    },
    subtask_type: null,
    immutable: followUp.immutable ?? false,
  }
}
