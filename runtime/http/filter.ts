/** The filter that lists and bulk calls share, as query parameters. */
import { Schema } from "effect"
import { CallboardError } from "../errors.ts"
import { StateSchema } from "../jobs/responses.ts"
import type { State } from "../protocol/state.ts"
import type { RecordQuery } from "../transport/lift/transport.ts"
import { TransportError } from "../transport/mod.ts"
import { DEFAULT_PAGE, MAX_PAGE } from "./limits.ts"
import { integer, list, text, type Values } from "./parameter.ts"

const Text = (description: string) =>
  Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(255)).annotate({ description })

const Limit = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MAX_PAGE })).annotate({
  description: "Most jobs to look at",
  default: DEFAULT_PAGE,
})

export const page = {
  limit: integer(Limit),
  cursor: text(
    Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(1024)).annotate({
      description: "Where to go on: the `next` of the page before",
    }),
  ),
}

export const taskFilter = {
  task: text(Text("As it was submitted, exactly: `text.count`")),
  queue: text(Text("Name of the queue")),
}

export const filter = {
  state: list(
    Schema.Array(StateSchema)
      .check(Schema.isMinLength(1), Schema.isMaxLength(20))
      .annotate({ description: "Any of these states, with commas between them" }),
  ),
  ...taskFilter,
  root: text(Text("Id of the first job of a workflow")),
  parent: text(Text("Id of the job that submitted it")),
  ...page,
}

/** Checked parameters as the transport's query. */
export const queryOf = (given: Values<typeof filter>): RecordQuery => ({
  limit: given.limit ?? DEFAULT_PAGE,
  ...(given.state === undefined ? {} : { states: given.state }),
  ...(given.task === undefined ? {} : { task: given.task }),
  ...(given.queue === undefined ? {} : { queue: given.queue }),
  ...(given.root === undefined ? {} : { rootId: given.root }),
  ...(given.parent === undefined ? {} : { parentId: given.parent }),
  ...(given.cursor === undefined ? {} : { after: given.cursor }),
})

/** Runs a query. Fails with `invalid-input` naming `cursor` where the transport cannot read the cursor. */
export const withCursor = async <T>(query: RecordQuery, work: (query: RecordQuery) => Promise<T>): Promise<T> => {
  try {
    return await work(query)
  } catch (cause) {
    if (query.after === undefined || !(cause instanceof TransportError) || cause.reason !== "invalid") throw cause
    throw new CallboardError("invalid-input", "cursor: is none of this list; begin without one", { field: "cursor" })
  }
}

/**
 * The filter of a bulk call: it must say which jobs are meant, and may name only states that can be changed so. Fails
 * with `invalid-input`.
 */
export const bulkQueryOf = (given: Values<typeof filter>, verb: string, states: ReadonlyArray<State>): RecordQuery => {
  const { limit: _limit, cursor: _cursor, ...which } = given
  if (Object.keys(which).length === 0) {
    const message = `say which jobs to ${verb}, by state, task, queue, root or parent; state=${states.join(",")} means all of them`
    throw new CallboardError("invalid-input", message, { field: "state" })
  }
  const wrong = given.state?.find((state) => !states.includes(state))
  if (wrong !== undefined) {
    const message = `state: to ${verb} is for jobs that are ${states.join(", ")}, not ${wrong}`
    throw new CallboardError("invalid-input", message, { field: "state" })
  }
  return { ...queryOf(given), states: given.state ?? states }
}
