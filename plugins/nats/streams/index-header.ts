/** What lists look for, as a header of the record or task that it is about: a list need not read what jobs and records hold. */
import { isState } from "../../../runtime/protocol/state.ts"
import type { Index } from "../../../runtime/transport/known.ts"
import { at, numberAt, textAt } from "../connection/json.ts"
import type { StoredMessage } from "./reader.ts"

const INDEX_HEADER = "Callboard-Index"

export const indexLine = (index: Index): string => `${INDEX_HEADER}: ${JSON.stringify(index)}\r\n`

/** The index of a message; `undefined` where there is none that can be read: nobody else writes there. */
export const indexOf = (message: StoredMessage): Index | undefined => {
  let said: unknown
  try {
    said = JSON.parse(message.header(INDEX_HEADER))
  } catch {
    return undefined
  }
  const state = at(said, "state")
  if (!isState(state)) return undefined
  const optional = ["method", "root", "parent", "group", "error", "tenant"] as const
  const texts = optional.flatMap((name) => (typeof at(said, name) === "string" ? [[name, textAt(said, name)]] : []))
  return {
    state,
    queue: textAt(said, "queue"),
    task: textAt(said, "task"),
    at: numberAt(said, "at"),
    ...(at(said, "hidden") === true ? { hidden: true } : {}),
    ...(at(said, "dead") === true ? { dead: true } : {}),
    ...Object.fromEntries(texts),
  }
}
