/** Decisions about one thing: made at once, told at the bottom of the page, and taken back from there where that is possible. */
import { signal } from "@preact/signals"
import type { JSX } from "preact"
import { ApiError, type Query } from "../client.ts"
import { refresh, send } from "../state.ts"
import { Button } from "./basic.tsx"
import { Icon } from "./icon.tsx"

interface Call {
  readonly method: string
  readonly path: string
}

interface Said {
  readonly words: string
  readonly isBad: boolean
  readonly undo?: Call
}

const said = signal<Said | undefined>(undefined)
let timer: ReturnType<typeof setTimeout> | undefined

/** Tells something for a while. */
export const say = (next: Said): void => {
  clearTimeout(timer)
  said.value = next
  timer = setTimeout(
    () => {
      said.value = undefined
    },
    next.undo === undefined ? 6_000 : 12_000,
  )
}

/** What takes a decision back: a job that has not started is cancelled again, a cancelled one is retried. */
const undoOf = ({ path }: Call): Call | undefined => {
  const [, job, verb] = /^(\/v1\/jobs\/[^/]+)\/(retry|cancel|run-now)$/.exec(path) ?? []
  if (job === undefined || verb === "run-now") return undefined
  return { method: "POST", path: `${job}/${verb === "retry" ? "cancel" : "retry"}` }
}

/** Decides, and says what came of it. Resolves to whether it was done. */
export const decide = async (
  words: string,
  method: string,
  path: string,
  query: Query = {},
  body?: unknown,
): Promise<boolean> => {
  try {
    await send(method, path, query, body)
    const undo = undoOf({ method, path })
    say({ words: `${words}: done`, isBad: false, ...(undo === undefined ? {} : { undo }) })
    refresh()
    return true
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    say({ words: `${words}: ${error.message}`, isBad: true })
    return false
  }
}

/** Where decisions are told. It is always there, so that it is read out. */
export const SaidBar = (): JSX.Element => {
  const { value } = said
  return (
    <div class="said" role="status">
      {value !== undefined && (
        <div class={`note ${value.isBad ? "bad" : ""}`}>
          <Icon name={value.isBad ? "errors" : "check"} />
          <span>{value.words}</span>
          {value.undo !== undefined && (
            <Button
              class="small"
              onClick={() => {
                const { undo } = value
                if (undo !== undefined) void decide("Undo", undo.method, undo.path)
              }}
            >
              Undo
            </Button>
          )}
          <Button class="small quiet sq" icon="x" label="Close" onClick={() => (said.value = undefined)} />
        </div>
      )}
    </div>
  )
}
