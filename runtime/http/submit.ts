/** `POST /v1/jobs`: tasks come in. The ids are fixed first, so that whatever happens then can be told apart by them. */
import { CallboardError } from "../errors.ts"
import { generateId } from "../id.ts"
import type { Receipt } from "../client.ts"
import { SubmissionSchema } from "../submission.ts"
import { TransportError } from "../transport.ts"
import { Schema } from "effect"
import { answer } from "./answer.ts"
import { within } from "./deadline.ts"
import type { Desk } from "./desk.ts"
import { IdempotentRequest, parseKey, type Receipts } from "./idempotency.ts"
import { BATCH_BODY_FACTOR, IDEMPOTENCY_TTL_MS, MAX_BATCH, SUBMIT_DEADLINE_MS } from "./limits.ts"
import { parsePrefer } from "./prefer.ts"
import { itemProblem, problem } from "./problem.ts"
import { BODY_TYPES, readBody } from "./request-body.ts"
import { type Ask, type Route, route } from "./route.ts"
import { BatchReceipts, ReceiptSchema, ReceiptWithResult } from "./schema.ts"
import { endOf, recordAfter } from "./waiting.ts"

const Body = Schema.Union([SubmissionSchema, Schema.Array(SubmissionSchema).check(Schema.isMaxLength(MAX_BATCH))])

type Answers = ReadonlyArray<Receipt | CallboardError>

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

/** What a submission says its id is; anything else than text is refused later. */
const givenId = (submission: unknown): string | undefined =>
  typeof submission === "object" && submission !== null && "id" in submission && typeof submission.id === "string"
    ? submission.id
    : undefined

const withId = (submission: unknown, id: string | undefined): unknown =>
  typeof submission === "object" && submission !== null && id !== undefined ? { ...submission, id } : submission

const tasksOf = (value: unknown): ReadonlyArray<unknown> => {
  if (!Array.isArray(value)) return [value]
  if (value.length === 0) throw new CallboardError("invalid-input", "the array is empty")
  if (value.length > MAX_BATCH) {
    throw new CallboardError("too-large", `an array may hold ${MAX_BATCH} tasks, not ${value.length}: send it in parts`)
  }
  return value
}

/** Posts tasks, once per `Idempotency-Key`. */
class Submitting {
  /** Ids that the tasks go out with; an earlier request under the same key may have fixed others. */
  ids: ReadonlyArray<string>
  /** Whether something may have been accepted. */
  outcome: "none" | "unknown" = "none"
  readonly #desk: Desk
  readonly #tasks: ReadonlyArray<unknown>
  readonly #context: { readonly traceparent?: string; readonly strict: boolean }
  readonly #toReceipts: (answers: Answers) => Receipts

  constructor(
    desk: Desk,
    tasks: ReadonlyArray<unknown>,
    context: { readonly traceparent?: string; readonly strict: boolean },
    toReceipts: (answers: Answers) => Receipts,
  ) {
    this.#desk = desk
    this.#tasks = tasks
    this.#context = context
    this.#toReceipts = toReceipts
    this.ids = tasks.map((task) => givenId(task) ?? generateId())
  }

  async run(request: IdempotentRequest | undefined): Promise<Answers | { readonly repeated: Receipts }> {
    if (request === undefined) return this.#post(this.#tasks)
    // Looked at before the tasks are checked: what was right then (an `expires`) need not be right any more.
    let earlier = await request.earlier()
    if (earlier === undefined) {
      await this.#prepare(this.#tasks)
      const taken = await request.take(this.ids)
      if (taken !== "taken") earlier = taken
    }
    if (earlier?.status === "done") return { repeated: earlier.receipts }
    if (earlier !== undefined) this.ids = earlier.ids
    // Ids that may have been submitted before are looked up: they are named like a submitter's own.
    const tasks = earlier === undefined ? this.#tasks : this.#tasks.map((task, at) => withId(task, this.ids[at]))
    const answers = await this.#post(tasks)
    await this.#remember(request, answers)
    return answers
  }

  #prepare(tasks: ReadonlyArray<unknown>) {
    const { client, maxBody } = this.#desk
    return client.prepare(tasks, { ...this.#context, ids: this.ids, maxBody })
  }

  async #post(tasks: ReadonlyArray<unknown>): Promise<Answers> {
    const prepared = await this.#prepare(tasks)
    this.outcome = "unknown"
    return this.#desk.client.post(prepared)
  }

  async #remember(request: IdempotentRequest, answers: Answers): Promise<void> {
    const errors = answers.filter((each) => each instanceof CallboardError)
    const unconfirmed = errors.filter((error) => error.code === "transport-unavailable")
    try {
      if (errors.length < answers.length) {
        if (unconfirmed.length === 0) await request.done(this.#toReceipts(answers))
      } else if (unconfirmed.every((error) => error.details.outcome === "none")) await request.failed()
    } catch (cause) {
      // The tasks are in; a repetition finds their ids under the key and submits those again, which adds nothing.
      this.#desk.log.debug("an Idempotency-Key was not brought up to date", { cause: String(cause) })
    }
  }
}

const notConfirmed = (id: string, outcome: "none" | "unknown", cause: TransportError): CallboardError =>
  new CallboardError(
    "transport-unavailable",
    `the task was not confirmed (${cause.message}); submitting it again with id ${id} is safe`,
    { id, outcome, cause },
  )

const submit = async ({ c, desk, caller, base }: Ask): Promise<Response> => {
  const request = c.req.raw
  const { headers } = request
  const key = parseKey(headers.get("idempotency-key"))
  const prefer = parsePrefer(headers.get("prefer"))
  const traceparent = headers.get("traceparent") ?? ""
  const body = await readBody(request, { one: desk.maxBody, many: desk.maxBody * BATCH_BODY_FACTOR })
  const isArray = Array.isArray(body.value)
  const tasks = tasksOf(body.value)
  const servesActors = desk.client.directory.local.size > 0

  const toReceipts = (answers: Answers): Receipts =>
    answers.map((each, index) =>
      each instanceof CallboardError
        ? itemProblem(isArray ? withIndex(each, index) : each)
        : { ...each, href: `${base}/v1/jobs/${each.id}` },
    )
  const submitting = new Submitting(
    desk,
    tasks,
    {
      strict: servesActors && !prefer.lenient,
      ...(TRACEPARENT.test(traceparent) ? { traceparent } : {}),
    },
    toReceipts,
  )
  const keyed =
    key === undefined ? undefined : new IdempotentRequest(desk.client.board.store, { ...body, caller: caller.key, key })
  const done = await within(
    SUBMIT_DEADLINE_MS,
    submitting.run(keyed),
    () => new TransportError("unavailable", "the transport did not answer in time", { outcome: submitting.outcome }),
  ).catch((cause: unknown) => {
    if (cause instanceof TransportError) {
      return submitting.ids.map((id) => notConfirmed(id, submitting.outcome, cause))
    }
    throw isArray && cause instanceof CallboardError ? withIndex(cause, cause.details.index ?? firstIndex(cause, tasks)) : cause
  })
  if ("repeated" in done) return receiptsAnswer(done.repeated.map(asDuplicate), isArray, {})

  const applied = prefer.lenient && servesActors ? ["handling=lenient"] : []
  const receipts = toReceipts(done)
  const [first] = done
  if (isArray) {
    const errors = done.filter((each) => each instanceof CallboardError)
    const isDown = errors.length === done.length && errors.every((each) => each.code === "transport-unavailable")
    if (isDown && errors[0] !== undefined) {
      return problem(new CallboardError("transport-unavailable", "no task was confirmed; submitting them again with the same ids is safe"), {
        errors: receipts.flatMap((each) => ("code" in each ? [each] : [])),
      })
    }
    return receiptsAnswer(receipts, true, preferenceApplied(applied))
  }
  if (first instanceof CallboardError) throw first
  return receiptsAnswer(receipts, false, preferenceApplied(applied))
}

const withIndex = (error: CallboardError, index: number | undefined): CallboardError =>
  index === undefined ? error : new CallboardError(error.code, error.message, { ...error.details, index })
