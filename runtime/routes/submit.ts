/** Routes that submit tasks: one, or an array. */
import * as Schema from "effect/Schema"
import { BatchReceipts, ReceiptSchema, ReceiptWithResult } from "../jobs/responses.ts"
import { SubmissionSchema } from "../jobs/submission/submission.ts"
import { MAX_BATCH, MAX_WAIT_MS } from "./bounds.ts"
import type { Descriptions } from "./description.ts"
import { boolean } from "./parameter.ts"

/** Content types of a body with tasks. */
export const BODY_TYPES = ["application/json", "application/msgpack"] as const

const bodyIn = <S extends Schema.Top>(schema: S) =>
  ({ "application/json": schema, "application/msgpack": schema }) satisfies Readonly<
    Record<(typeof BODY_TYPES)[number], S>
  >

const Tasks = Schema.Array(SubmissionSchema).check(Schema.isMinLength(1), Schema.isMaxLength(MAX_BATCH))

const WHAT_IS_KNOWN = `A method that its actor does not have is refused as \`unknown-actor\`. If this process runs actors itself, so is any task that no known worker serves, unless \`Prefer: handling=lenient\` is sent.

The \`outcome\` of a \`503\` says whether the task may have been accepted, now or later: \`none\` is final. It is safe to submit it again with the \`id\` in the response or, if there is none, with the same \`Idempotency-Key\`.`

const submitting = {
  group: "Jobs",
  scope: "submit",
  query: {
    atomic: boolean(
      Schema.Boolean.annotate({
        description: "Store all tasks of an array or none; `unsupported` if the transport cannot do that",
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
      description: `\`wait=10\` responds with the result if the job ends within that many seconds (at most ${MAX_WAIT_MS / 1000}; not for arrays; needs the scopes \`read\` and \`payload\`). \`handling=lenient\` accepts tasks that no known worker serves`,
      example: "wait=10",
    },
    traceparent: {
      description: "W3C trace context, carried along with the task",
      example: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    },
    tracestate: {
      description: "Vendor data of tracing systems, carried along with the task; at most 512 characters are kept",
      example: "congo=t61rcWkgMzE",
    },
  },
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
} as const

export const SUBMIT_ROUTES = {
  "POST /v1/jobs": {
    ...submitting,
    operation: "submitJob",
    summary: "Submit a task",
    description: `It also accepts an array of tasks, like \`POST /v1/jobs/batch\`.\n${WHAT_IS_KNOWN}`,
    body: bodyIn(SubmissionSchema),
    responses: [
      {
        status: 202,
        description: "Accepted; see `durability` for how safely it is stored",
        schema: ReceiptSchema,
        headers: { Location: "The job", "Preference-Applied": "The preferences that were honoured" },
      },
      {
        status: 200,
        description: "Accepted, and ended within the preferred `wait`: the receipt with the result",
        schema: ReceiptWithResult,
        headers: { Location: "The job", "Preference-Applied": "The preferences that were honoured" },
      },
    ],
  },
  "POST /v1/jobs/batch": {
    ...submitting,
    operation: "submitJobs",
    summary: "Submit an array of tasks",
    description: `The array is checked as a whole: an invalid element refuses all of it, with its \`index\`. Otherwise each element gets its own receipt or error.\n${WHAT_IS_KNOWN}`,
    body: bodyIn(Tasks),
    responses: [
      {
        status: 202,
        description: "Accepted; see `durability` for how safely it is stored",
        schema: BatchReceipts,
        headers: { "Preference-Applied": "The preferences that were honoured" },
      },
    ],
  },
} as const satisfies Descriptions
