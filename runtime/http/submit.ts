/** `POST /v1/jobs`: submits one task or an array, by the headers `Idempotency-Key`, `Prefer` and `traceparent`. */

import { CallboardError } from "../errors.ts"
import type { Receipt } from "../jobs/receipt.ts"
import type { BatchReceipts, ReceiptSchema, ReceiptWithResult } from "../jobs/responses.ts"
import { compact } from "../protocol/compact.ts"
import { parseTraceparent } from "../protocol/trace-context.ts"
import { MAX_BATCH, MAX_WAIT_MS } from "../routes/bounds.ts"
import type { ParametersOf } from "../routes/description.ts"
import { SUBMIT_ROUTES } from "../routes/submit.ts"
import { IdempotentRequest, parseKey } from "./idempotency.ts"
import { jobOutcome, recordAfterWait } from "./job-record.ts"
import { BATCH_BODY_FACTOR } from "./limits.ts"
import { type RequestBody, readBody } from "./request-body.ts"
import { itemProblem, json, problem } from "./response.ts"
import { type Route, type RouteRequest, served } from "./route.ts"
import { SubmissionRequest, type SubmitOptions } from "./submission-request.ts"

/** Length of a `traceparent` of version 00. Later versions may be longer, and are not understood here. */
const TRACEPARENT_LENGTH = 55

/** The W3C trace context of a request. A malformed one is ignored, as the recommendation says. */
const traceOf = (headers: Headers): Pick<SubmitOptions, "traceparent" | "tracestate"> => {
  const traceparent = headers.get("traceparent") ?? ""
  if (traceparent.length !== TRACEPARENT_LENGTH || parseTraceparent(traceparent) === undefined) return {}
  const tracestate = headers.get("tracestate")
  return tracestate === null ? { traceparent } : { traceparent, tracestate }
}

const tasksOf = (value: unknown): ReadonlyArray<unknown> => {
  if (!Array.isArray(value)) return [value]
  if (value.length === 0) throw new CallboardError("invalid-input", "the array is empty")
  if (value.length > MAX_BATCH) {
    throw new CallboardError("too-large", `an array can hold at most ${MAX_BATCH} tasks, not ${value.length}`)
  }
  return value
}

type SubmitRequest = RouteRequest<ParametersOf<(typeof SUBMIT_ROUTES)["POST /v1/jobs"]>>

const submit = async (request: SubmitRequest): Promise<Response> => accept(request, await bodyIn(request))

const submitBatch = async (request: SubmitRequest): Promise<Response> => {
  const body = await bodyIn(request)
  if (Array.isArray(body.value)) return accept(request, body)
  throw new CallboardError("invalid-input", "the body must be an array of tasks; POST /v1/jobs takes a single one")
}

const bodyIn = ({ c, context, held }: SubmitRequest): Promise<RequestBody> =>
  readBody(c.req.raw, { one: context.maxBody, many: context.maxBody * BATCH_BODY_FACTOR }, held)

const accept = async (routeRequest: SubmitRequest, body: RequestBody): Promise<Response> => {
  const { c, context, caller, held, base } = routeRequest
  const { atomic = false } = routeRequest.query
  const request = c.req.raw
  const { headers } = request
  const key = parseKey(headers.get("idempotency-key"))
  const prefer = parsePrefer(headers.get("prefer"))
  const isArray = Array.isArray(body.value)
  const parentNeeds = (["read", "payload"] as const).find((scope) => !caller.may(scope))
  const servesActors = context.client.directory.local.size > 0
  const submission = new SubmissionRequest(context, tasksOf(body.value), {
    isArray,
    atomic,
    strict: servesActors && !prefer.lenient,
    lenient: prefer.lenient,
    ...compact({ parentNeeds }),
    ...traceOf(headers),
  })
  const results = await submission.run(
    key === undefined
      ? undefined
      : new IdempotentRequest(context.client.connection.store, { ...body, caller: caller.key, key }),
  )
  // A wait for the result may be long, and needs none of the body.
  held.release()
  const applied = prefer.lenient ? ["handling=lenient"] : []
  const described = (receipt: Receipt): typeof ReceiptSchema.Type => ({
    ...receipt,
    href: `${base}/v1/jobs/${receipt.id}`,
  })

  if (isArray) {
    const items = results.map((each, index) =>
      each instanceof CallboardError ? { ...itemProblem(each), index } : described(each),
    )
    const errors = items.filter((item) => "code" in item)
    if (errors.length === items.length && errors.every(({ code }) => code === "transport-unavailable")) {
      const message =
        "no task was confirmed; it is safe to submit them again with the ids in this response, or the same Idempotency-Key"
      return problem(new CallboardError("transport-unavailable", message), { errors })
    }
    return json<typeof BatchReceipts.Type>(items, 202, preferenceApplied(applied))
  }

  const [only] = results
  if (only === undefined) throw new CallboardError("internal", "a submission had no result")
  if (only instanceof CallboardError) throw only
  const receipt = described(only)
  if (prefer.waitMs !== undefined && caller.may("read") && caller.may("payload")) {
    const waited = preferenceApplied([...applied, `wait=${prefer.waitMs / 1000}`])
    const end = await outcomeWithin(routeRequest, receipt.id, prefer.waitMs)
    if (end === undefined) return json(receipt, 202, { location: receipt.href, ...waited })
    const withResult: typeof ReceiptWithResult.Type = { ...receipt, ...end }
    return json(withResult, 200, { location: receipt.href, ...waited })
  }
  return json(receipt, 202, { location: receipt.href, ...preferenceApplied(applied) })
}

/**
 * The outcome of an accepted task, if it ends within `ms`. A wait that fails counts as too short, since the task is
 * accepted.
 */
const outcomeWithin = async ({ c, context }: RouteRequest, id: string, ms: number) => {
  try {
    return jobOutcome(await recordAfterWait(context, id, ms, c.req.raw.signal))
  } catch (cause) {
    context.log.debug("waiting for the result of a submission failed", { job: id, cause: String(cause) })
    return undefined
  }
}

const preferenceApplied = (applied: ReadonlyArray<string>): Readonly<Record<string, string>> =>
  applied.length === 0 ? {} : { "preference-applied": applied.join(", ") }

export const submitRoutes: ReadonlyArray<Route> = served(SUBMIT_ROUTES, {
  "POST /v1/jobs": submit,
  "POST /v1/jobs/batch": submitBatch,
})

/** What a client asked for in its `Prefer` header. */
export interface Preferences {
  /** `wait=10`: longest wait for the result, in milliseconds. */
  readonly waitMs: number | undefined
  /** `handling=lenient`: accept tasks that no known worker serves. */
  readonly lenient: boolean
}

/** Reads the `Prefer` header (RFC 7240). A preference that is unknown or malformed is ignored, as the RFC says. */
export const parsePrefer = (header: string | null): Preferences => {
  const found = new Map<string, string>()
  for (const part of (header ?? "").split(",")) {
    const [preference = ""] = part.split(";")
    const equals = preference.indexOf("=")
    const name = (equals === -1 ? preference : preference.slice(0, equals)).trim().toLowerCase()
    const value = equals === -1 ? "" : preference.slice(equals + 1).trim()
    // Where a preference is given twice, the first one counts (RFC 7240).
    if (!found.has(name)) found.set(name, value.replace(/^"(.*)"$/, "$1"))
  }
  const wait = found.get("wait") ?? ""
  return {
    waitMs: /^\d{1,6}$/.test(wait) ? Math.min(Number(wait) * 1000, MAX_WAIT_MS) : undefined,
    lenient: found.get("handling")?.toLowerCase() === "lenient",
  }
}
