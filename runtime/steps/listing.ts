/** Lists the steps of a job for the page, HTTP and the command line. */
import * as Schema from "effect/Schema"
import { describedMethod } from "../cluster/directory.ts"
import type { Connection } from "../connection/connection.ts"
import { findRecord, goneError } from "../jobs/tracking/finding.ts"
import { isoTime } from "../jobs/view.ts"
import { hideAll, redactedText } from "../log/redaction.ts"
import { refuseCursor } from "../options/refuse.ts"
import { compact, ifGiven } from "../protocol/compact.ts"
import { parseTask } from "../protocol/headers.ts"
import type { JobRecord } from "../protocol/record.ts"
import { isTerminal } from "../protocol/state.ts"
import { hash } from "../transport/job-store/hash.ts"
import { fold, type StepState, unreverted } from "./fold.ts"
import { journalPrefix, type WaitEntry } from "./page.ts"
import { readJournal } from "./pages.ts"

const Step = Schema.Struct({
  name: Schema.String,
  state: Schema.Literals(["done", "failed", "reverted", "revert-failed", "waiting"]),
  at: Schema.String.annotate({ description: "When it ended, or when its wait began" }),
  took: Schema.Finite.annotate({ description: "In seconds, including its retries" }),
  tries: Schema.Int,
  revert: Schema.optionalKey(Schema.Literal(true).annotate({ description: "It can be reverted" })),
  value: Schema.optionalKey(
    Schema.String.annotate({ description: "Its result as JSON, cut to 1,024 characters; `***` if it is hidden" }),
  ),
  large: Schema.optionalKey(Schema.Literal(true).annotate({ description: "Its result is too large to show" })),
  until: Schema.optionalKey(Schema.String.annotate({ description: "When its wait ends at the latest" })),
  signal: Schema.optionalKey(Schema.String.annotate({ description: "The signal for which it waits" })),
  job: Schema.optionalKey(Schema.String.annotate({ description: "The job for whose end it waits" })),
  error: Schema.optionalKey(
    Schema.Struct({ name: Schema.String, message: Schema.String }).annotate({
      description: "Why it failed, or why it could not be reverted",
    }),
  ),
})

/**
 * A page of the durable steps of a job, in the order in which their outcomes were stored; on the last page, after them, what its
 * handler waits for. Steps that are under way are not listed.
 */
export const StepPage = Schema.Struct({
  run: Schema.Int,
  steps: Schema.Array(Step),
  unreverted: Schema.optionalKey(
    Schema.Array(Schema.String).annotate({
      description: "Names of the revertible steps that were not reverted, if the job has failed or was cancelled",
    }),
  ),
  next: Schema.optionalKey(
    Schema.String.annotate({ description: "Where the next page starts; absent on the last page" }),
  ),
})
export type StepPage = typeof StepPage.Type

/** A cursor says after which step the page begins, and of which run of which job: the steps of another have other places. */
const cursorOf = (journal: string, order: number): string => `${order}-${hash(journal)}`

const cursorPlaceOf = (journal: string, cursor: string): number => {
  const order = Number(/^\d{1,9}(?=-)/.exec(cursor)?.[0])
  return cursor === cursorOf(journal, order) ? order : refuseCursor("cursor")
}

/**
 * Reads a page of the steps of a job's last run. Fails with `not-found`, `gone`, `invalid-input` for a cursor of another
 * list, and as the store does.
 */
export const stepsOf = async (
  connection: Connection,
  id: string,
  { limit, after }: { readonly limit: number; readonly after?: string | undefined },
): Promise<StepPage> => {
  const { store } = connection
  const { record } = await findRecord(connection, id)
  if (record.tombstone) throw goneError(id)
  const journal = journalPrefix(id, record.run)
  const from = after === undefined ? -1 : cursorPlaceOf(journal, after)
  const { entries } = await readJournal(store, journal)
  const folded = fold(entries)
  const all = [...folded.steps.values()].sort((one, other) => one.order - other.order)
  const rest = all.filter(({ order }) => order > from)
  const redact = await redactionOf(store, record)
  const steps = rest.slice(0, limit)
  const last = steps.at(-1)
  const isLast = rest.length <= limit
  const waits = isLast && !isTerminal(record.state) ? [...folded.waits.values()].map(waitView) : []
  const left = record.state === "failed" || record.state === "cancelled" ? unreverted(folded) : []
  return {
    run: record.run,
    steps: [...steps.map((step) => stepView(step, redact)), ...waits],
    ...(left.length === 0 ? {} : { unreverted: left }),
    ...(last === undefined || isLast ? {} : { next: cursorOf(journal, last.order) }),
  }
}

const stepView = (step: StepState, redact: ReturnType<typeof hideAll>): typeof Step.Type => {
  const { name, state, at, took, tries, revert, value, large, failure, revertFailure } = step
  const why = revertFailure ?? failure
  return {
    name,
    state,
    at: isoTime(at),
    took: took / 1_000,
    tries,
    ...(revert ? { revert } : {}),
    ...(value === undefined ? {} : { value: redactedText(value, compact({ redact })) }),
    ...(large === undefined ? {} : { large: true }),
    ...(why === undefined ? {} : { error: { name: why.names[0] ?? "Error", message: why.message } }),
  }
}

const waitView = ({ step, at, until, signal, job }: WaitEntry): typeof Step.Type => ({
  name: step,
  state: "waiting",
  at: isoTime(at),
  took: 0,
  tries: 0,
  ...compact({ until: ifGiven(until, isoTime), signal, job }),
})

/** The redaction of the job's method. Hides everything where it cannot be read. */
const redactionOf = async (store: Connection["store"], { task, meth, message }: JobRecord) => {
  const parsed = message === undefined ? undefined : parseTask(message)
  const own = parsed?._tag === "Success" ? parsed.success.own.redact : undefined
  return describedMethod(store, task, meth).then(
    (method) => hideAll(own, method?.redact),
    () => true as const,
  )
}
