/** Routes that control workers: suspend them, and one route for each command. */
import * as Schema from "effect/Schema"
import { argumentsOf, COMMANDS, type CommandName, takesOf } from "../cluster/remote-command.ts"
import type { Address, Description, Descriptions } from "./description.ts"
import { list, text } from "./parameter.ts"

const Text = Schema.String
const Names = Schema.Array(Text).annotate({ description: "Only these workers, by name; all that live otherwise" })
const Timeout = Text.annotate({ description: "Longest wait for answers, 1 second if nothing is said: `500ms`" })

export const AnswerList = Schema.Struct({
  answers: Schema.Array(
    Schema.Struct({
      worker: Text,
      value: Schema.optionalKey(Schema.Unknown.annotate({ description: "What it answered" })),
      error: Schema.optionalKey(
        Text.annotate({ description: "Why there is no value; also for a worker that is silent" }),
      ),
    }).annotate({ identifier: "WorkerAnswer" }),
  ),
}).annotate({ identifier: "AnswerList" })

export const TARGETS = { workers: list(Names), timeout: text(Timeout) } as const

const Worker = text(Text.annotate({ description: "Its name; all workers otherwise" }))

export const WORKER_ROUTES = {
  "POST /v1/workers/suspend": {
    operation: "suspendWorkers",
    group: "Workers",
    summary: "Let a worker, or all of them, take no more tasks",
    description: "What runs goes on. Holds for workers that start later, too.",
    scope: "operate",
    query: {
      worker: Worker,
      ttl: text(Text.annotate({ description: "Ends by itself after this long: `10 minutes`" })),
    },
    responses: [{ status: 204, description: "They are suspended" }],
  },
  "POST /v1/workers/resume": {
    operation: "resumeWorkers",
    group: "Workers",
    summary: "Let a worker, or all of them, take tasks again",
    scope: "operate",
    query: { worker: Worker },
    responses: [{ status: 204, description: "They are not suspended any more" }],
  },
} as const satisfies Descriptions

const camel = (name: string): string => name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** Commands whose answers hold the arguments of tasks. */
const SHOWS_PAYLOAD: ReadonlySet<CommandName> = new Set(["active", "reserved", "put-off"])

/** The route of a command to workers. */
export const commandRoute = (
  name: CommandName,
): readonly [Address, Description & { readonly query: typeof TARGETS }] => {
  const { kind, summary } = COMMANDS[name]
  const shared = {
    operation: `${kind}${camel(`-${name}`)}`,
    group: "Workers",
    summary,
    query: TARGETS,
    responses: [{ status: 200, description: "What each worker answered", schema: AnswerList }],
  }
  if (kind === "inspect") {
    const payload = SHOWS_PAYLOAD.has(name) ? ({ showsPayload: true } as const) : {}
    return [`GET /v1/inspect/${name}`, { ...shared, scope: "read", ...payload, problems: ["not-found"] }]
  }
  const body = takesOf(name).length === 0 ? {} : { body: { "application/json": argumentsOf(name) } }
  const problems = ["invalid-json", "invalid-input", "unsupported-content-type", "too-large", "not-found"] as const
  return [`POST /v1/control/${name}`, { ...shared, scope: "admin", ...body, problems }]
}
