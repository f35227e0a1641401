/** Routes about the board over time: series, findings, tasks, errors by cause. */
import * as Schema from "effect/Schema"
import { CallboardError } from "../errors.ts"
import { milliseconds } from "../options/duration.ts"
import { SERIES_BY, SERIES_OF } from "../statistics/series.ts"
import { withReadDeadline } from "./limits.ts"
import { text } from "./parameter.ts"
import { json } from "./response.ts"
import { type Route, route } from "./route.ts"
import { SeriesSchema } from "./statistics-schema.ts"

const Name = (description: string) =>
  Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)).annotate({ description })

const Moment = (description: string) => Schema.String.check(Schema.isMaxLength(64)).annotate({ description })

/** A moment in milliseconds since the epoch. Fails with `invalid-input`, naming the parameter. */
const momentOf = (field: string, given: string | undefined): number | undefined => {
  if (given === undefined) return undefined
  const at = /^\d{4}-\d\d-\d\dT/.test(given) ? Date.parse(given) : Number.NaN
  if (Number.isFinite(at)) return at
  throw new CallboardError("invalid-input", `${field}: must be a time such as 2026-01-31T12:00:00Z`, { field })
}

export const statisticsRoutes: ReadonlyArray<Route> = [
  route({
    method: "GET",
    path: "/v1/series",
    operation: "getSeries",
    group: "Statistics",
    summary: "What happened over time: counts, or percentiles of waiting and running",
    description:
      "Of the last hour unless `from` says otherwise; at most 24 hours, 12 series (the rest is `(other)`) and 120 points. Workers write what they have counted every ten seconds. `null`: nothing is known of that time. `marks`: a version of the application that was first seen, and a worker that was last seen and did not stop in order. A job is counted as submitted once a worker has taken it, at the time of its submission. `partial`: not all could be read in time; ask again.",
    scope: "read",
    query: {
      of: text(
        Schema.Literals(SERIES_OF).annotate({
          description:
            "Jobs that ended, were submitted; attempts that started; seconds that they had waited, or ran; what waits in queues",
          default: "ended",
        }),
      ),
      by: text(Schema.Literals(SERIES_BY).annotate({ description: "One series for each; absent: one in all" })),
      task: text(Name("Only this task, `actor.method`, or all of an actor")),
      queue: text(Name("Only this queue")),
      from: text(Moment("Begin, ISO 8601; one hour ago if nothing is said")),
      to: text(Moment("End, ISO 8601; now if nothing is said")),
      step: text(
        Moment(
          "Length of a point: `1m`, or seconds; a multiple of a minute, and of ten where `from` is over two hours ago",
        ),
      ),
    },
    responses: [{ status: 200, description: "The series", schema: SeriesSchema }],
    handle: async ({ context, query: { of = "ended", by, task, queue, from, to, step } }) => {
      const asked = {
        of,
        by,
        task,
        queue,
        from: momentOf("from", from),
        to: momentOf("to", to),
        step: step === undefined ? undefined : milliseconds("step", step),
      }
      return json<typeof SeriesSchema.Type>(await withReadDeadline(context.client.statistics.series(asked)))
    },
  }),
]
