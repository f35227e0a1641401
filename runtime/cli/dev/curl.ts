/** Makes a `curl` command that submits a task of one of the actors. */
import type { ActorDefinition, ErasedMethod } from "../../actor/actor.ts"
import { jsonSchemaOf, sampleOf } from "../../options/json-schema.ts"
import { DEFAULT_METHOD } from "../../protocol/name.ts"

interface Example {
  readonly task: string
  readonly input: unknown
}

const inputOf = (method: ErasedMethod): unknown => {
  if (method.input !== undefined) return sampleOf(jsonSchemaOf(method.input, "input"))
  return Object.fromEntries((method.params ?? []).map((name) => [name, 1]))
}

/** Whether the input schema of a method accepts an input. */
const isTaken = async (method: ErasedMethod, input: unknown): Promise<boolean> => {
  if (method.input === undefined) return true
  try {
    const checked = await method.input["~standard"].validate(input)
    return checked.issues === undefined
  } catch {
    return false
  }
}

/** The first method for which a valid example input can be made; else the first method. */
export const exampleOf = async (actors: ReadonlyArray<ActorDefinition>): Promise<Example | undefined> => {
  const examples = actors.flatMap((actor) =>
    [...actor.methods.values()].map((method) => ({
      method,
      task: method.name === DEFAULT_METHOD ? actor.name : `${actor.name}.${method.name}`,
      input: inputOf(method),
    })),
  )
  for (const example of examples) if (await isTaken(example.method, example.input)) return example
  return examples[0]
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** The command, in one line, since several lines break when pasted. It waits up to 10 seconds for the result. */
export const curlOf = ({ task, input }: Example, url: string, needsToken: boolean): string =>
  [
    `curl -s ${url}/v1/jobs`,
    `-H 'content-type: application/json'`,
    `-H 'prefer: wait=10'`,
    ...(needsToken ? [`-H "authorization: Bearer $TOKEN"`] : []),
    `-d ${quoted(JSON.stringify({ task, input }))}`,
  ].join(" ")
