/** Describes an actor for the directory, where submitters and operators read it: names and options, no handlers. */
import { type ActorDescription, DEFAULT_QUEUE } from "../cluster/directory.ts"
import { isExact, jsonSchemaOf } from "../options/json-schema.ts"
import { rateText } from "../options/rate.ts"
import type { ActorDefinition, ErasedMethod } from "./actor.ts"

export const describeActor = (actor: ActorDefinition): ActorDescription => ({
  name: actor.name,
  queue: actor.queue ?? DEFAULT_QUEUE,
  ...(actor.description === undefined ? {} : { description: actor.description }),
  methods: [...actor.methods.values()].map(describeMethod),
})

const describeMethod = (method: ErasedMethod): ActorDescription["methods"][number] => {
  const input = method.input === undefined ? undefined : jsonSchemaOf(method.input, "input")
  const output = method.output === undefined ? undefined : jsonSchemaOf(method.output, "output")
  return {
    name: method.name,
    ...(method.description === undefined ? {} : { description: method.description }),
    ...(method.queue === undefined ? {} : { queue: method.queue }),
    ...(method.priority === undefined ? {} : { priority: method.priority }),
    ...(method.retry?.max === undefined ? {} : { retries: method.retry.max }),
    ...(method.params === undefined ? {} : { params: method.params }),
    ...(method.redact === undefined ? {} : { redact: method.redact }),
    ...(method.limit === undefined ? {} : { limit: describeLimit(method.limit) }),
    ...(typeof method.limit?.key === "string" ? { limitKey: method.limit.key } : {}),
    ...(input === undefined ? {} : { input }),
    ...(method.input === undefined || input === undefined || !isExact(method.input) ? {} : { exactInput: true }),
    ...(output === undefined ? {} : { output }),
  }
}

const describeLimit = ({
  rate,
  concurrency,
  key,
}: NonNullable<ErasedMethod["limit"]>): NonNullable<ActorDescription["methods"][number]["limit"]> => ({
  ...(rate === undefined ? {} : { rate: rateText(rate) }),
  ...(concurrency === undefined ? {} : { concurrency }),
  keyed: key !== undefined,
})
