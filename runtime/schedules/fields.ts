/** The fields of a schedule as they are given, over code, HTTP, on the command line or by an actor, and how they are checked. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { CallboardError } from "../errors.ts"
import { type ParsedSubmission, parseSubmission, SubmissionSchema } from "../jobs/submission/submission.ts"
import { parserOf } from "../options/check.ts"
import { milliseconds } from "../options/duration.ts"
import { Duration } from "../options/duration-field.ts"
import { whole } from "../options/fields.ts"
import { type Refuse, refuseInput, unknownOption } from "../options/refuse.ts"
import { strictJson } from "../protocol/codec/json.ts"
import { isMap, isObject } from "../protocol/guards.ts"
import { encoder } from "../protocol/text.ts"
import { parseTime } from "../protocol/time.ts"
import { isTimeZone, problemOfCron, type Timing } from "./timing.ts"

/** Fields that say when a schedule is due. */
const timingFields = {
  cron: Schema.optionalKey(
    Schema.String.annotate({
      description: "Cron expression: five fields, or six with the second first: `0 7 * * mon`",
    }),
  ),
  timeZone: Schema.optionalKey(
    Schema.String.annotate({ description: "Time zone of `cron`, such as `Europe/Berlin`; the default is UTC" }),
  ),
  every: Schema.optionalKey(Duration.annotate({ description: "Interval; due now, and then after each interval" })),
  at: Schema.optionalKey(Schema.String.annotate({ description: "A single time: ISO 8601, UTC if no zone" })),
}

const ruleFields = {
  ...timingFields,
  catchUp: Schema.optionalKey(
    Schema.Literals(["skip", "last", "all"]).annotate({
      description:
        "Which due times are submitted of those that passed while no worker was running; the default is `last`",
    }),
  ),
  overlap: Schema.optionalKey(
    Schema.Literals(["allow", "skip", "queue"]).annotate({
      description: "What happens at a due time while the previous job has not ended; the default is `allow`",
    }),
  ),
  most: Schema.optionalKey(
    whole({ min: 1, max: 1_000 }).annotate({
      description: "Maximum number of due times that wait to be submitted; the default is 100",
    }),
  ),
  jitter: Schema.optionalKey(Duration.annotate({ description: "Delay each due time by a random time up to this" })),
}

// A schedule gives each job its id and says when it is due; other jobs are waited for, or joined in a chord, once.
const { id: _id, delay: _delay, eta: _eta, after: _after, chord: _chord, ...taskFields } = SubmissionSchema.fields

export const ScheduleFieldsSchema = Schema.Struct({ ...taskFields, ...ruleFields }).annotate({
  identifier: "ScheduleFields",
})
/** A schedule: a task, when it is due, and what becomes of due times that are late or come too early. */
export type ScheduleFields = typeof ScheduleFieldsSchema.Type

const { task, meth, queue } = taskFields
const readOutline = Schema.decodeUnknownSync(Schema.Struct({ task, meth, queue, ...ruleFields }))

/** The fields of a schedule without those that its task is given. */
export const outlineOf = (fields: ScheduleFields): ScheduleFields => readOutline(fields)

/** Fields that an actor's method may declare for its schedule: all but those that name the task. */
const DeclaredSchema = Schema.Struct({ ...ruleFields, input: Schema.optionalKey(Schema.Unknown) })
/** The same as a method gives it: a text is its `cron`. */
export const DeclaredField = Schema.Union([Schema.String, DeclaredSchema]).annotate({
  message: 'must be a cron expression, or an object, such as { every: "1 hour" }',
})
export type ScheduleDeclaration = typeof DeclaredSchema.Type

/** Changes of a schedule; `null` takes a field away. */
export const ScheduleChangesSchema = Schema.Record(Schema.String, Schema.Unknown).annotate({
  identifier: "ScheduleChanges",
})
export type ScheduleChanges = { readonly [Field in keyof ScheduleFields]?: ScheduleFields[Field] | null }

/** The rules of a schedule, as far as its fields alone decide them. */
export interface FieldRules {
  readonly timing: Timing
  readonly catchUp: "skip" | "last" | "all"
  readonly overlap: "allow" | "skip" | "queue"
  readonly most: number
  readonly jitterMs: number
}

/** Most bytes of a schedule as JSON: it is in the store twice while it is posted. */
const MAX_BYTES = 256 * 1024

const FIELDS = Object.keys(ScheduleFieldsSchema.fields)
const parseFields = parserOf(ScheduleFieldsSchema, "a schedule", "schedule")

/** The first field of an object that strict JSON cannot express. */
const unkeptField = (value: unknown): string | undefined =>
  isObject(value)
    ? Object.keys(value).find((field) => strictJson({ given: Reflect.get(value, field) }) === undefined)
    : undefined

/** Checks the fields of a schedule. Fails with `invalid-input`, `unknown-field` or `too-large`, naming the field. */
export const parseScheduleFields = (value: unknown): ScheduleFields => {
  const plain = strictJson(value)
  if (plain === undefined) refuseInput(unkeptField(value) ?? "schedule", "contains a value that JSON cannot represent")
  const fields = parseFields(plain)
  const { length } = encoder.encode(JSON.stringify(fields))
  if (length > MAX_BYTES) {
    throw new CallboardError("too-large", `the schedule has ${length} bytes as JSON; at most ${MAX_BYTES} are allowed`)
  }
  if (typeof fields.expires === "string" && Result.isSuccess(parseTime(fields.expires))) {
    refuseInput("expires", "must be a duration, because it applies to each job of the schedule separately")
  }
  const fanned = (fields.chain ?? []).findIndex(({ chord }) => chord !== undefined)
  if (fanned >= 0) refuseInput(`chain[${fanned}].chord`, "is not allowed here: submit it from the task of the schedule")
  for (const list of ["callbacks", "errbacks", "chain"] as const) {
    const named = (fields[list] ?? []).findIndex(
      ({ id, errbacks = [] }) => id !== undefined || errbacks.some((each) => each.id !== undefined),
    )
    if (named >= 0)
      refuseInput(`${list}[${named}].id`, "is not allowed: only the first job of the schedule could have this id")
  }
  return fields
}

const timingOf = (fields: ScheduleDeclaration, now: number, refuse: Refuse): Timing => {
  const { cron, timeZone, every, at } = fields
  if ([cron, every, at].filter((each) => each !== undefined).length !== 1) {
    refuse(
      cron === undefined ? "cron" : every === undefined ? "at" : "every",
      "set exactly one of `cron`, `every` and `at`",
    )
  }
  if (timeZone !== undefined && cron === undefined) refuse("timeZone", "requires `cron`")
  if (timeZone !== undefined && !isTimeZone(timeZone)) {
    refuse("timeZone", `${JSON.stringify(timeZone)} is not a time zone, such as Europe/Berlin`)
  }
  if (cron !== undefined) {
    const timing = { kind: "cron", cron: cron.trim(), timeZone: timeZone ?? "UTC" } as const
    const problem = problemOfCron(timing.cron, timing.timeZone, now)
    return problem === undefined ? timing : refuse("cron", `${JSON.stringify(cron)} ${problem}`)
  }
  if (every !== undefined) {
    const everyMs = milliseconds("every", every, refuse, { min: 1_000 })
    return { kind: "every", everyMs, anchor: now }
  }
  const moment = parseTime(at ?? "")
  if (Result.isFailure(moment)) return refuse("at", moment.failure.message)
  const ms = Math.ceil(moment.success)
  return ms > now ? { kind: "at", at: ms } : refuse("at", "has already passed")
}

/**
 * The rules of checked fields. An interval begins now. Refuses what is never due, and zones that do not exist. `timing`: the
 * one to keep, where that has not changed.
 */
export const rulesOf = (
  fields: ScheduleDeclaration,
  now: number,
  refuse: Refuse = refuseInput,
  timing: Timing = timingOf(fields, now, refuse),
): FieldRules => ({
  timing,
  catchUp: fields.catchUp ?? "last",
  overlap: fields.overlap ?? "allow",
  most: fields.most ?? 100,
  jitterMs: fields.jitter === undefined ? 0 : milliseconds("jitter", fields.jitter, refuse),
})

const isTimingField = (field: string): boolean => Object.hasOwn(timingFields, field)

/** Whether the fields that say when a schedule is due are the same. */
export const hasSameTimes = (a: ScheduleFields, b: ScheduleFields): boolean =>
  a.cron === b.cron && a.timeZone === b.timeZone && a.every === b.every && a.at === b.at

/** Fields with their changes: `null` takes one away; a new `cron`, `every` or `at` takes the place of the one before. */
export const changedFields = (
  fields: ScheduleFields,
  changes: unknown,
): { fields: ScheduleFields; isTimed: boolean } => {
  if (!isMap(changes)) return refuseInput("schedule", "must be an object that contains the fields to change")
  const given = Object.entries(changes).filter(([, value]) => value !== undefined)
  // A field that is taken away is not among those that are checked below.
  const [unknown] = given.find(([field, value]) => value === null && !FIELDS.includes(field)) ?? []
  if (unknown !== undefined) throw unknownOption(unknown, FIELDS, "a schedule")
  const [kind] = given.flatMap(([field, value]) =>
    ["cron", "every", "at"].includes(field) && value !== null ? [field] : [],
  )
  const kept = Object.entries(fields).filter(
    ([field]) => kind === undefined || !isTimingField(field) || (kind === "cron" && field === "timeZone"),
  )
  const merged = Object.fromEntries([...kept, ...given].filter(([, value]) => value !== null))
  for (const [field, value] of given) if (value === null) delete merged[field]
  const changed = parseScheduleFields(merged)
  return { fields: changed, isTimed: !hasSameTimes(fields, changed) }
}

/** The task of a schedule. */
export const submissionOf = (fields: ScheduleFields): ParsedSubmission => {
  const { cron, timeZone, every, at, catchUp, overlap, most, jitter, ...submission } = fields
  const checked = parseSubmission(submission)
  if (Result.isFailure(checked)) throw checked.failure
  return checked.success
}
