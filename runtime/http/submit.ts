/** `POST /v1/jobs`: submits one task or an array, by the headers `Idempotency-Key`, `Prefer` and `traceparent`. */
import * as Schema from "effect/Schema"
import { CallboardError } from "../errors.ts"
import type { Receipt } from "../jobs/receipt.ts"
import { BatchReceipts, ReceiptSchema, ReceiptWithResult } from "../jobs/responses.ts"
import { SubmissionSchema } from "../jobs/submission/submission.ts"
import { compact } from "../protocol/compact.ts"
import { parseTraceparent } from "../protocol/trace-context.ts"
import { IdempotentRequest, parseKey } from "./idempotency.ts"
import { jobOutcome, recordAfterWait } from "./job-record.ts"
import { BATCH_BODY_FACTOR, MAX_BATCH, MAX_WAIT_MS } from "./limits.ts"
import { boolean } from "./parameter.ts"
import { BODY_TYPES, readBody } from "./request-body.ts"
import { itemProblem, json, problem } from "./response.ts"
import { type RouteRequest, route } from "./route.ts"
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
    throw new CallboardError("too-large", `an array holds ${MAX_BATCH} tasks at most, not ${value.length}`)
  }
  return value
}

const submit = async (routeRequest: RouteRequest, atomic: boolean): Promise<Response> => {
  const { c, context, caller, held, base } = routeRequest
  const request = c.req.raw
  const { headers } = request
  const key = parseKey(headers.get("idempotency-key"))
  const prefer = parsePrefer(headers.get("prefer"))
  const limits = { one: context.maxBody, many: context.maxBody * BATCH_BODY_FACTOR }
  const body = await readBody(request, limits, held)
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
        "no task was confirmed; submitting them again with the ids given here, or the same Idempotency-Key, is safe"
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
    context.log.debug("a submitter's wait failed", { job: id, cause: String(cause) })
    return undefined
  }
}

const preferenceApplied = (applied: ReadonlyArray<string>): Readonly<Record<string, string>> =>
  applied.length === 0 ? {} : { "preference-applied": applied.join(", ") }

const Body = Schema.Union([
  SubmissionSchema,
  Schema.Array(SubmissionSchema).check(Schema.isMinLength(1), Schema.isMaxLength(MAX_BATCH)),
])

export const submitRoutes = [
  route({
    method: "POST",
    path: "/v1/jobs",
    operation: "submitJobs",
    group: "Jobs",
    summary: "Submit a task, or an array of tasks",
    description: `An array is checked as a whole: one wrong element refuses all, with its \`index\`. Then each element has its own receipt or error.
A method that its actor does not have is refused as \`unknown-actor\`, and where this process runs actors itself any task that nobody is known to serve, unless \`Prefer: handling=lenient\` is sent.
A \`503\` says in \`outcome\` whether the task may have been accepted, now or later: \`none\` is final. Submitting it again with the \`id\` that it names is safe, and with the same \`Idempotency-Key\` where it names none.`,
    scope: "submit",
    query: {
      atomic: boolean(
        Schema.Boolean.annotate({
          description: "Store all tasks of an array or none; `unsupported` where the transport cannot",
        }),
      ),
    },
    headers: {
      "Idempotency-Key": {
        description:
          "Makes a repeated request safe, for 24 hours and per token: the same body gets the same receipt with `duplicate: true`, another body is refused",
        example: "order-4711",
      },
      Prefer: {
        description: `\`wait=10\` answers with the result if it comes within that many seconds (${MAX_WAIT_MS / 1000} at most; not for arrays; needs the scopes \`read\` and \`payload\`). \`handling=lenient\` accepts tasks that nobody is known to serve`,
        example: "wait=10",
      },
      traceparent: {
        description: "W3C trace context, carried along with the task",
        example: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      },
      tracestate: {
        description: "What tracing systems say beside `traceparent`, carried along as well; 512 characters are kept",
        example: "congo=t61rcWkgMzE",
      },
    },
    body: Object.fromEntries(BODY_TYPES.map((type) => [type, Body])),
    responses: [
      {
        status: 202,
        description: "Accepted: kept as durably as `durability` says",
        schema: Schema.Union([ReceiptSchema, BatchReceipts]),
        headers: {
          Location: "The job, unless an array was sent",
          "Preference-Applied": "The preferences that were honoured",
        },
      },
      {
        status: 200,
        description: "Accepted, and ended within the `wait` that was preferred: the receipt with the result",
        schema: ReceiptWithResult,
        headers: { Location: "The job", "Preference-Applied": "The preferences that were honoured" },
      },
    ],
    problems: [
      "invalid-json",
      "invalid-input",
      "unknown-field",
      "unknown-actor",
      "unsupported",
      "unsupported-content-type",
      "too-large",
      "job-exists",
      "idempotency-mismatch",
    ],
    handle: (request) => submit(request, request.query.atomic ?? false),
  }),
]

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
