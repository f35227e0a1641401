/** A schedule as it is shown, over code, HTTP and on the command line. */
import * as Schema from "effect/Schema"
import { Count, next, Time } from "../options/fields.ts"
import { compact } from "../protocol/compact.ts"
import { STATES } from "../protocol/state.ts"
import type { ScheduleEntry } from "./entry.ts"
import { ScheduleFieldsSchema } from "./fields.ts"
import { nextDue } from "./timing.ts"

/** A job that the schedule has posted. */
const ScheduleRun = Schema.Struct({
  id: Schema.String.annotate({ description: "Id of the job" }),
  due: Time,
  posted: Time,
  state: Schema.optionalKey(
    Schema.Literals(STATES).annotate({ description: "If a single schedule is read and its job is kept" }),
  ),
})
export type ScheduleRun = typeof ScheduleRun.Type

export const ScheduleViewSchema = Schema.Struct({
  name: Schema.String,
  state: Schema.Literals(["active", "paused", "over"]).annotate({ description: "`over`: it is never due again" }),
  next: Schema.optionalKey(Time.annotate({ description: "The next due time" })),
  fields: ScheduleFieldsSchema,
  upcoming: Schema.optionalKey(
    Schema.Array(Time).annotate({ description: "The next 5 due times, if a single schedule is read" }),
  ),
  waiting: Count.annotate({ description: "Due times that wait until the previous job has ended" }),
  runs: Schema.Array(ScheduleRun).annotate({ description: "The last 20, newest first" }),
  missed: Schema.Struct({
    count: Count,
    latest: Schema.Array(
      Schema.Struct({
        from: Time,
        to: Time,
        count: Count,
        why: Schema.Literals(["late", "overlap", "paused", "refused"]),
        detail: Schema.optionalKey(Schema.String),
      }),
    ),
  }).annotate({ description: "Missed due times: their total number, and the last 20 intervals" }),
  declaredBy: Schema.optionalKey(Schema.String.annotate({ description: "The actor that declares it" })),
  createdAt: Time,
  changedAt: Time,
}).annotate({ identifier: "Schedule" })
export type ScheduleView = typeof ScheduleViewSchema.Type

/** A page of schedules, as HTTP has it. */
export const ScheduleList = Schema.Struct({
  schedules: Schema.Array(ScheduleViewSchema),
  next,
}).annotate({ identifier: "ScheduleList" })

export const PostedJob = Schema.Struct({ id: Schema.String.annotate({ description: "Id of the job" }) }).annotate({
  identifier: "PostedJob",
})

const iso = (ms: number): string => new Date(ms).toISOString()

const UPCOMING = 5

/** The next due times; none of a schedule that is paused or over. */
export const upcomingOf = ({ paused, due, rules: { timing } }: ScheduleEntry): ReadonlyArray<string> => {
  const dues: Array<number> = []
  for (let next = paused ? undefined : (due ?? undefined); next !== undefined && dues.length < UPCOMING; ) {
    dues.push(next)
    next = nextDue(timing, next)
  }
  return dues.map(iso)
}

export const scheduleView = (
  name: string,
  entry: ScheduleEntry,
  states: ReadonlyMap<string, (typeof STATES)[number]> = new Map(),
): ScheduleView => {
  const { paused, due, line, fields, runs, missed, declared, createdAt, changedAt } = entry
  return {
    name,
    state: paused ? "paused" : due === null && line.length === 0 ? "over" : "active",
    ...(paused || due === null ? {} : { next: iso(due) }),
    fields,
    waiting: line.length,
    runs: runs.map(({ id, due, at }) => {
      const state = states.get(id)
      return { id, due: iso(due), posted: iso(at), ...compact({ state }) }
    }),
    missed: {
      count: missed.count,
      latest: missed.latest.map((each) => ({ ...each, from: iso(each.from), to: iso(each.to) })),
    },
    ...compact({ declaredBy: declared?.actor }),
    createdAt: iso(createdAt),
    changedAt: iso(changedAt),
  }
}
