/** Routes that control workers: suspend them, and one route for each command. */
import * as Schema from "effect/Schema"
import { argumentsOf, COMMANDS, type CommandName, takesOf } from "../cluster/remote-command.ts"
import type { Address, Description, Descriptions } from "./description.ts"
import { list, text } from "./parameter.ts"

const Text = Schema.String
const Names = Schema.Array(Text).annotate({ description: "Only these workers, by name; by default all live workers" })
const Timeout = Text.annotate({
  description: "How long to wait for responses, such as `500ms`; the default is 1 second",
})

export const AnswerList = Schema.Struct({
  answers: Schema.Array(
    Schema.Struct({
      worker: Text,
      value: Schema.optionalKey(Schema.Unknown.annotate({ description: "The answer of the worker" })),
      error: Schema.optionalKey(
        Text.annotate({ description: "Why there is no value; also set for a worker that did not answer" }),
      ),
    }).annotate({ identifier: "WorkerAnswer" }),
  ),
}).annotate({ identifier: "AnswerList" })

export const TARGETS = { workers: list(Names), timeout: text(Timeout) } as const

const Worker = text(Text.annotate({ description: "Name of the worker; by default all workers" }))

export const WORKER_ROUTES = {
  "POST /v1/workers/suspend": {
    operation: "suspendWorkers",
    group: "Workers",
    summary: "Stop a worker, or all workers, from taking tasks",
    description: "Running jobs continue. It also applies to workers that start later.",
    scope: "operate",
    query: {
      worker: Worker,
      ttl: text(Text.annotate({ description: "Ends automatically after this time, such as `10 minutes`" })),
    },
    responses: [{ status: 204, description: "The workers are suspended" }],
  },
  "POST /v1/workers/resume": {
    operation: "resumeWorkers",
    group: "Workers",
    summary: "Let a worker, or all workers, take tasks again",
    scope: "operate",
    query: { worker: Worker },
    responses: [{ status: 204, description: "The workers are no longer suspended" }],
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
    responses: [{ status: 200, description: "The answer of each worker", schema: AnswerList }],
  }
  if (kind === "inspect") {
    const payload = SHOWS_PAYLOAD.has(name) ? ({ showsPayload: true } as const) : {}
    return [`GET /v1/inspect/${name}`, { ...shared, scope: "read", ...payload, problems: ["not-found"] }]
  }
  const body = takesOf(name).length === 0 ? {} : { body: { "application/json": argumentsOf(name) } }
  const problems = ["invalid-json", "invalid-input", "unsupported-content-type", "too-large", "not-found"] as const
  return [`POST /v1/control/${name}`, { ...shared, scope: "admin", ...body, problems }]
}
