/**
 * Reads the handler's input and the job's follow-ups from the body of a task, and validates them before anything runs.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { ErasedMethod } from "../../actor/actor.ts"
import { isEffect, type MaybeEffect, valueOrEffect } from "../../async/maybe-effect.ts"
import { embedProblem } from "../../jobs/outcome/follow-ups.ts"
import type { InvalidValue } from "../../options/json-schema.ts"
import { decodeBody, type Embed, NO_EMBED } from "../../protocol/body.ts"
import { isExternal, type Task } from "../../protocol/headers.ts"
import { selectInput } from "../../protocol/input.ts"
import type { JobPosting } from "../../protocol/message.ts"
import type { JobError } from "../../protocol/record.ts"
import { waitFor } from "../../transport/timers.ts"
import type { ActiveDelivery, ExternalTasks, InputRead } from "../active-delivery.ts"
import type { ParsedDelivery } from "../parsed-delivery.ts"
import { validate } from "./call.ts"
import type { MethodSettingsCache } from "./method-settings.ts"

/** What a worker says about bodies. */
export interface BodyOptions {
  /** Largest body, in bytes, also after decompression. */
  readonly maxBody: number
  /** Present where tasks of Celery's clients are completed. */
  readonly external?: ExternalTasks | undefined
}

/** How the body of a task is read. */
export const bodyRules = ({ maxBody, external }: BodyOptions, task: Task): BodyRules => ({
  maxBytes: maxBody,
  countsChords: external?.countsChords === true && isExternal(task),
})

interface BodyRules {
  /** Bounds the body, also after decompression. */
  readonly maxBytes: number
  /** Whether chords of Celery are counted for this task. */
  readonly countsChords: boolean
}

/**
 * The validated input of the handler and the follow-ups of the job. If the delivery is ended from outside while its schema
 * validates, the input is not read; the hard time limit of the task ends it.
 */
export const readInput = (
  active: ActiveDelivery,
  { posting, task }: ParsedDelivery,
  method: ErasedMethod,
  options: BodyOptions,
  settings: Pick<MethodSettingsCache, "hardMsOf">,
): MaybeEffect<InputRead> => {
  const { maxBytes, countsChords } = bodyRules(options, task)
  const body = decodeBody(posting.message, { accepts: method.accepts ?? [], maxBytes })
  if (Result.isFailure(body)) {
    const { reason, message } = body.failure
    const error = { name: "Undecodable", message, reason }
    return Result.fail({ error, embed: NO_EMBED, dead: reason })
  }
  const { embed } = body.success
  const problem = embedProblem(embed, posting.id, countsChords)
  if (problem !== undefined) {
    const error = { name: "Unsupported", message: problem, reason: "unsupported" }
    return Result.fail({ error, embed: NO_EMBED, dead: "unsupported" })
  }
  const selected = selectInput(body.success, method.params)
  // An isolated method's input is validated in its process, because the value that a schema produces need not be JSON.
  const checking =
    method.input === undefined || method.isolation !== "inline" || Result.isFailure(selected)
      ? selected
      : valueOrEffect(validate(method.input, selected.success))
  if (!isEffect(checking)) return withEmbed(checking, embed)
  const inTime = untilEnded(active, checking, settings.hardMsOf(method, task))
  return Effect.map(inTime, (checked) => withEmbed(checked, embed))
}

type Checked = Result.Result<unknown, InvalidValue>

/** Waits for a schema as long as the handler may take, or until the delivery is ended, after which its input is not used. */
const untilEnded = (active: ActiveDelivery, checking: Effect.Effect<Checked>, hardMs: number): Effect.Effect<Checked> =>
  Effect.promise(async () => {
    let checked: Checked | undefined
    const answered = Effect.runPromise(checking).then((answer) => {
      checked = answer
    })
    await waitFor(answered, hardMs, active.ended)
    if (checked !== undefined) return checked
    active.end("timeout")
    return Result.succeed(undefined)
  })

const withEmbed = (checked: Checked, embed: Embed): InputRead =>
  Result.isFailure(checked)
    ? Result.fail({ error: invalidInput(checked.failure), embed })
    : Result.succeed({ embed, input: checked.success })

/** The follow-ups of a task that fails before its body was needed; none where the body cannot be read. */
export const embedOf = (posting: JobPosting, { maxBytes, countsChords }: BodyRules): Embed => {
  const body = decodeBody(posting.message, { maxBytes })
  return Result.isSuccess(body) && embedProblem(body.success.embed, posting.id, countsChords) === undefined
    ? body.success.embed
    : NO_EMBED
}

export const invalidInput = ({ message, field }: InvalidValue): JobError => ({
  name: "InvalidInput",
  message,
  reason: "invalid-input",
  ...(field === "" ? {} : { field }),
})
