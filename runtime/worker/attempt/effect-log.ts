/** What an Effect of a handler logs, as lines of its job: annotations and spans become fields, a cause becomes one. */
import { Cause, Effect, Logger, References } from "effect"
import type { JobLog } from "../../actor/job.ts"

/** `log` is asked for when there is something to log. Levels are chosen by the worker's own settings. */
export const logsTo = (log: () => JobLog) => {
  const loggers = new Set([
    Logger.make<unknown, void>(({ message, logLevel, cause, fiber, date }) => {
      const parts = Array.isArray(message) ? message : [message]
      const [first, ...rest] = parts
      const spans = fiber.getRef(References.CurrentLogSpans)
      const fields = {
        ...fiber.getRef(References.CurrentLogAnnotations),
        ...Object.fromEntries(spans.map(([label, since]) => [label, `${date.getTime() - since} ms`])),
        ...(rest.length === 0 ? {} : { values: rest }),
        ...(cause.reasons.length === 0 ? {} : { cause: Cause.pretty(cause) }),
      }
      log()[LEVELS[logLevel]](typeof first === "string" ? first : String(first), fields)
    }),
  ])
  return <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    effect.pipe(
      Effect.provideService(Logger.CurrentLoggers, loggers),
      Effect.provideService(References.MinimumLogLevel, "All"),
    )
}

const LEVELS = {
  All: "debug",
  Trace: "debug",
  Debug: "debug",
  Info: "info",
  Warn: "warn",
  Error: "error",
  Fatal: "error",
  None: "debug",
} as const
