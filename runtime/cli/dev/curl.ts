/** A `curl` to paste that posts a task which one of the actors can do. */
import type { ActorDefinition, ErasedMethod } from "../../actor/actor.ts"
import { jsonSchemaOf } from "../../options/json-schema.ts"
import { sampleOf } from "../../options/sample.ts"
import { DEFAULT_METHOD } from "../../protocol/name.ts"

interface Example {
  readonly task: string
  readonly input: unknown
}

const inputOf = (method: ErasedMethod): unknown => {
  if (method.input !== undefined) return sampleOf(jsonSchemaOf(method.input, "input"))
  return Object.fromEntries((method.params ?? []).map((name) => [name, 1]))
}

/** Whether the method's own check takes the input. */
const isTaken = async (method: ErasedMethod, input: unknown): Promise<boolean> => {
  if (method.input === undefined) return true
  try {
    const checked = await method.input["~standard"].validate(input)
    return checked.issues === undefined
  } catch {
    return false
  }
}

/** The first method whose input can be made up; else the first method. */
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

/** The command, in one line, so that it survives pasting. The answer is the result, if it comes in time. */
export const curlOf = ({ task, input }: Example, url: string, needsToken: boolean): string =>
  [
    `curl -s ${url}/v1/jobs`,
    `-H 'content-type: application/json'`,
    `-H 'prefer: wait=10'`,
    ...(needsToken ? [`-H "authorization: Bearer $TOKEN"`] : []),
    `-d ${quoted(JSON.stringify({ task, input }))}`,
  ].join(" ")
