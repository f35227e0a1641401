/**
 * A single job as people and programs see it: its view, its attempts, and what its task holds as long as that is kept. Lists
 * and events leave this out, because a body has to be decoded for it.
 */
import * as Result from "effect/Result"
import { describedMethod } from "../cluster/directory.ts"
import { loggable } from "../log/log-value.ts"
import { HIDDEN, hideAll, hides, type Redaction } from "../log/redaction.ts"
import { type Body, decodeBody } from "../protocol/body.ts"
import { jsonForm } from "../protocol/codec/json.ts"
import { compact } from "../protocol/compact.ts"
import { encodeBase64 } from "../protocol/exact.ts"
import { isObject, isPlainObject } from "../protocol/guards.ts"
import { parseTask, type Task } from "../protocol/headers.ts"
import { selectInput } from "../protocol/input.ts"
import type { JobRecord, Transition } from "../protocol/record.ts"
import { isTerminal } from "../protocol/state.ts"
import { cut, decoder, encoder } from "../protocol/text.ts"
import type { Store } from "../transport/mod.ts"
import type { Attempt, JobInput } from "./responses.ts"
import { isoTime, type JobView, jobView } from "./view.ts"

/** Longest text of one argument in a call, in characters, and of the call. */
const MAX_ARGUMENT = 75
const MAX_CALL = 1_000

/**
 * The job with what its task holds. A job that has succeeded does not keep its task. Where the submitter did not know
 * what the method hides, as with tasks that Celery has sent, the description that workers store of the method says so;
 * where that cannot be read, the whole input is hidden. Never rejects.
 */
export const jobDetails = async (store: Store, record: JobRecord): Promise<JobView> => {
  const view = jobView(record)
  const { message } = record
  const task = message === undefined ? undefined : Result.getOrUndefined(parseTask(message))
  if (message === undefined || task === undefined) return { ...view, description: view.description ?? callOf(record) }
  const { own, origin, custom: headers } = task
  const decoded = decodeBody(message)
  const redact =
    own.redact === true ||
    (await describedMethod(store, record.task, record.meth).then(
      (method) => hideAll(own.redact, method?.redact),
      () => true,
    ))
  const body = Result.isSuccess(decoded) ? shown(decoded.success, redact) : undefined
  return {
    ...view,
    description: view.description ?? callOf(record, body),
    ...(view.sender === undefined && origin !== null ? { sender: origin } : {}),
    ...(body === undefined ? {} : inputOf(body)),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    ...ttlsOf(task),
  }
}

/**
 * A view without what the job was given and what it gave back. What the submitter described stays, which lists show to people;
 * the call stands in for it where nothing was described, without its arguments.
 */
export const withoutPayload = ({ description, progress, ...view }: JobView, record?: JobRecord): JobView => {
  const { input: _input, result: _result, meta: _meta, headers: _headers, details: _details, ...rest } = view
  const text = record === undefined ? description : (record.description ?? callOf(record))
  return {
    ...rest,
    ...compact({ progress: progress && { fraction: progress.fraction, at: progress.at }, description: text }),
  }
}

/** Most bytes of an input that are shown. */
const MAX_SHOWN = 64 * 1024

/** The input of a view, in parts. `undefined` where it is not kept. */
export const inputView = ({ input }: JobView, { raw }: JobRecord): JobInput | undefined => {
  if (input === undefined) {
    if (raw === undefined) return undefined
    const bytes = raw.length
    const shown = encodeBase64(raw.subarray(0, MAX_SHOWN))
    return { raw: shown, encoding: "base64", bytes, truncated: bytes > MAX_SHOWN, redacted: [] }
  }
  const json = JSON.stringify(input)
  const encoded = encoder.encode(json)
  const bytes = encoded.length
  const redacted = [...hiddenNames(input)]
  if (bytes <= MAX_SHOWN) return { value: input, bytes, truncated: false, redacted }
  // A character that the cut has divided is left out.
  const text = decoder.decode(encoded.subarray(0, MAX_SHOWN)).replace(/\ufffd$/, "")
  return { raw: text, encoding: "json", bytes, truncated: true, redacted }
}

/** Names of fields whose value is hidden. */
const hiddenNames = (value: unknown, into: Set<string> = new Set()): Set<string> => {
  if (!isObject(value)) return into
  for (const [name, each] of Object.entries(value)) {
    if (each === HIDDEN && !Array.isArray(value)) into.add(name)
    else hiddenNames(each, into)
  }
  return into
}

type Arguments = Pick<Body, "args" | "kwargs">

/**
 * Arguments without what the method hides. The names of positional arguments are not known here: where some names are
 * hidden, each of them is hidden as a whole, unless it has fields with names.
 */
const shown = ({ args, kwargs }: Body, redact: Redaction["redact"]): Arguments => {
  if (redact === undefined) return { args, kwargs }
  const hidden = (value: unknown): unknown => {
    if (redact === true) return HIDDEN
    if (Array.isArray(value)) return value.map(hidden)
    if (!isPlainObject(value)) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [name, hides(redact, name) ? HIDDEN : hidden(each)]),
    )
  }
  const unnamed = (value: unknown): unknown =>
    Array.isArray(value) ? value.map(unnamed) : isPlainObject(value) ? hidden(value) : HIDDEN
  const hide = (name: string, value: unknown) => (hides(redact, name) ? HIDDEN : hidden(value))
  return {
    args: args.map(unnamed),
    kwargs: Object.fromEntries(Object.entries(kwargs).map(([name, value]) => [name, hide(name, value)])),
  }
}

const inputOf = (body: Arguments): Pick<JobView, "input"> => {
  const input = Result.flatMap(selectInput(body), (value) => jsonForm(value, "input"))
  return Result.isSuccess(input) ? { input: input.success } : {}
}

const detailText = (value: unknown): string =>
  cut(JSON.stringify(loggable(value, { characters: MAX_CALL })) ?? "null", MAX_ARGUMENT)

/** The call as text, such as `orders.total(items=["tea"])`, and `orders.total(…)` where the input is not kept. */
const callOf = ({ task, meth }: JobRecord, body?: Arguments): string => {
  const name = meth === null ? task : `${task}.${meth}`
  if (body === undefined) return `${name}(…)`
  const { args, kwargs } = body
  const named = Object.keys(kwargs)
    .sort()
    .map((key) => `${key}=${detailText(kwargs[key])}`)
  return cut(`${name}(${[...args.map(detailText), ...named].join(", ")})`, MAX_CALL)
}

const secondsOf = (ms: number | undefined): number | undefined =>
  ms === undefined ? undefined : ms < 0 ? -1 : ms / 1_000

const ttlsOf = ({ own: { ttlMs, resultTtlMs, failureTtlMs } }: Task): Partial<JobView> =>
  compact({ ttl: secondsOf(ttlMs), resultTtl: secondsOf(resultTtlMs), failureTtl: secondsOf(failureTtlMs) })

/** Most attempts that are shown, the last ones. */
const MOST = 20

/** What a transition after the start says about the attempt. */
const outcomeOf = ({ state, reason, error }: Transition): string => {
  if (isTerminal(state)) return state
  if (state === "started") return "lost"
  if (error !== undefined || reason === "retry") return "failed"
  // `signalled`: what it waits for had come before it was suspended.
  if (reason === "suspended" || reason === "signalled") return "suspended"
  return reason === "handed-back" ? "handed-back" : "lost"
}

/** The last 20 attempts, oldest first. Those of which the start is not kept any more are left out. */
export const attemptsOf = ({ timeline, error, state }: JobRecord): ReadonlyArray<Attempt> => {
  const attempts: Array<Attempt> = []
  let queued: number | undefined
  for (const [at, step] of timeline.entries()) {
    if (step.state === "queued" || step.state === "scheduled") queued = step.due ?? step.at
    if (step.state !== "started") continue
    const end = timeline[at + 1]
    const isLast = end !== undefined && at + 2 === timeline.length && isTerminal(state)
    const failed = isLast ? error : end?.error
    attempts.push({
      run: step.run,
      attempt: step.attempt ?? attempts.length + 1,
      started: isoTime(step.at),
      ...compact({
        worker: step.worker,
        version: step.version,
        queued: queued === undefined || queued > step.at ? undefined : isoTime(queued),
        ended: end && isoTime(end.at),
        outcome: end && outcomeOf(end),
        reason: end?.reason,
        error: failed,
      }),
    })
    queued = undefined
  }
  return attempts.slice(-MOST)
}
