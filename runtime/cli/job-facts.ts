/** What `callboard job ID` tells of a job: a row for each field of its schema, named as the field is. */
import * as Struct from "effect/Struct"
import { Job } from "../jobs/responses.ts"
import type { QueuePlace } from "../jobs/tracking/waiting.ts"
import type { JobView } from "../jobs/view.ts"
import { listText, localTime, percent, spanText } from "./format.ts"

export type Fact = readonly [label: string, text: string]

const labelOf = (field: string): string =>
  field.replace(/Id$/, "").replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)

const json = (value: unknown): string => JSON.stringify(value)

const plain = (value: unknown): string => (typeof value === "string" ? value : json(value))

/** A job that has the field. */
type Having<Field extends keyof JobView> = JobView & Required<Pick<JobView, Field>>

const has = <Field extends keyof JobView>(job: JobView, field: Field): job is Having<Field> => job[field] !== undefined

const fact = <Field extends keyof JobView>(
  field: Field,
  tell: (value: Having<Field>[Field], job: JobView) => string | ReadonlyArray<Fact> = plain,
) => {
  const rows = (job: JobView): ReadonlyArray<Fact> => {
    if (!has(job, field)) return []
    const told = tell(job[field], job)
    return typeof told === "string" ? [[labelOf(field), told]] : told
  }
  return { field, rows }
}

const spent = (words: string, seconds: number | undefined): string =>
  seconds === undefined ? "" : `, ${words} ${spanText(seconds * 1_000)}`

const timeRows = (times: JobView["times"], { durations }: JobView): ReadonlyArray<Fact> =>
  Object.entries(times).flatMap(([name, at]): ReadonlyArray<Fact> => {
    if (name === "enqueued" && at === times.submitted) return []
    const more =
      name === "started" ? spent("waited", durations?.waited) : name === "ended" ? spent("took", durations?.ran) : ""
    return [[labelOf(name), `${localTime(at)}${more}`]]
  })

const limitsText = ({ hard, soft }: NonNullable<JobView["timeLimit"]>): string =>
  [
    ...(hard === undefined ? [] : [hard === null ? "none" : spanText(hard * 1_000)]),
    ...(soft === undefined ? [] : [`soft ${spanText(soft * 1_000)}`]),
  ].join(", ")

const ttlText = (seconds: number): string => (seconds < 0 ? "indefinitely" : spanText(seconds * 1_000))

const failuresText = (allowFailure = false): string => (allowFailure ? " (failures allowed)" : "")

const afterRows = ({ ids, allowFailure, waiting }: NonNullable<JobView["after"]>): ReadonlyArray<Fact> => [
  ["after", `${listText(ids)}${failuresText(allowFailure)}`],
  ...(waiting === undefined ? [] : [["waits for", listText(waiting)] as const]),
]

const waitRows = ({ until, signals, jobs }: NonNullable<JobView["waits"]>): ReadonlyArray<Fact> => [
  ["waits until", localTime(until)],
  ...(signals === undefined ? [] : [["waits for signal", listText(signals)] as const]),
  ...(jobs === undefined ? [] : [["waits for job", listText(jobs)] as const]),
]

const signalsText = (signals: NonNullable<JobView["signals"]>): string => listText(signals.map(({ name }) => name))

const chordText = ({ size, allowFailure, waiting }: NonNullable<JobView["chord"]>): string =>
  `${size === 1 ? "1 member" : `${size} members`}${failuresText(allowFailure)}${waiting ? ", not all ended" : ""}`

const QUEUE = fact("queue", (queue, { front, priority }) => `${queue}, priority ${front ? "front" : priority}`)

/** Fields whose row is not simply their value, and where the others stand among them. */
const ROWS = [
  fact("times", timeRows),
  fact("timeLimit", limitsText),
  fact("ttl", ttlText),
  fact("resultTtl", ttlText),
  fact("failureTtl", ttlText),
  fact(
    "attempts",
    (attempts, { retries, run }) =>
      `${attempts}${retries > 0 ? `, ${retries} retried` : ""}${run > 1 ? `, run ${run}` : ""}`,
  ),
  fact("repeat", ({ done, times, left }) => `${done} of ${times}, ${left} left`),
  fact("worker"),
  fact("sender"),
  fact("parentId"),
  fact("rootId", (rootId, { id }) => (rootId === id ? [] : rootId)),
  fact("group"),
  fact("after", afterRows),
  fact("waits", waitRows),
  fact("signals", signalsText),
  fact("chord", chordText),
  fact("description"),
  fact("details"),
  fact("book", ({ name, uuid }) => `${name} ${uuid}`),
  fact("headers"),
  fact("input", json),
  fact("meta"),
  fact("progress", ({ fraction, detail }) => `${percent(fraction)}${detail === undefined ? "" : ` ${json(detail)}`}`),
  fact("dead"),
  fact("error", ({ name, message, reason, errors = [] }) => [
    ["error", `${name}: ${message} (${reason})`],
    ...errors.map((each) => ["", `${each.name}: ${each.message}`] as const),
  ]),
  fact("result", json),
]

/** Fields that another row, the heading or the story tells, and those that are for programs. */
const ELSEWHERE: ReadonlyArray<keyof JobView> = [
  "id",
  "task",
  "meth",
  "name",
  "priority",
  "front",
  "state",
  "celeryState",
  "run",
  "retries",
  "durations",
  "fingerprint",
  "reverting",
  "reverted",
  "unreverted",
  "transitions",
]

const named = new Set<keyof JobView>([QUEUE.field, ...ROWS.map(({ field }) => field), ...ELSEWHERE])
/** Fields that nothing is said of above: each has a row of its own. */
const OTHERS = Struct.keys(Job.fields).flatMap((field) => (named.has(field) ? [] : [fact(field)]))

const placeRows = (place: QueuePlace | null): ReadonlyArray<Fact> =>
  place === null ? [] : [["before it", place.more ? `more than ${place.position}` : String(place.position)]]

/** The rows of a job; `place`: where it waits in its queue, if it does. */
export const jobFacts = (job: JobView, place: QueuePlace | null): ReadonlyArray<Fact> => [
  ...QUEUE.rows(job),
  ...placeRows(place),
  ...[...ROWS, ...OTHERS].flatMap(({ rows }) => rows(job)),
]
