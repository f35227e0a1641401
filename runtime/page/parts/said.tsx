/** Decisions about one thing: made at once, told at the bottom of the page, and taken back from there where that is possible. */
import { signal } from "@preact/signals"
import type { JSX } from "preact"
import { ApiError, type Query } from "../client.ts"
import { refresh, send } from "../state.ts"
import { Button, type Command, Decision, type DecisionProps } from "./basic.tsx"
import { Icon } from "./icon.tsx"

interface Call {
  readonly method: string
  readonly path: string
  readonly query?: Query
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

/** The states of a job that has not begun. */
const WAITING = "deferred,scheduled,queued"

/** What takes a decision back: a job that has not started is cancelled again, a cancelled one is retried. */
const undoOf = ({ path }: Call): Call | undefined => {
  const [, job, verb] = /^(\/v1\/jobs\/[^/]+)\/(retry|cancel|run-now)$/.exec(path) ?? []
  if (job === undefined || verb === "run-now") return undefined
  // Once the job runs again it is not what was retried by mistake any more.
  if (verb === "retry") return { method: "POST", path: `${job}/cancel`, query: { state: WAITING } }
  return { method: "POST", path: `${job}/retry` }
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

/** Why a decision cannot be taken back any more. */
const TOO_LATE: Readonly<Record<string, string>> = {
  "matches-differ": "the job has started meanwhile, and goes on",
  "already-terminal": "the job has ended meanwhile",
  "job-exists": "the job was decided about meanwhile",
}

const takeBack = async ({ method, path, query }: Call): Promise<void> => {
  try {
    await send(method, path, query)
    say({ words: "Undo: done", isBad: false })
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const late = TOO_LATE[error.code]
    say({ words: `Undo: ${late === undefined ? error.message : `too late, ${late}`}`, isBad: true })
  }
  refresh()
}

/** A button that decides at once. `words`: how the decision is told. */
export const Act = ({
  words,
  command,
  ...button
}: Omit<DecisionProps, "onClick" | "command"> & { readonly words: string; readonly command: Command }): JSX.Element => (
  <Decision
    {...button}
    command={command}
    onClick={() => void decide(words, command.method, command.path, command.query)}
  />
)

/** What is let go on or stopped, whichever it is not: one button, at one place. */
export const Turn = ({
  name,
  isOff,
  verbs,
  command,
  titles,
}: {
  readonly name: string
  readonly isOff: boolean
  /** What it says to begin again, and to stop. */
  readonly verbs: readonly [on: string, off: string]
  readonly titles: readonly [on: string, off: string]
  /** What it calls, by its verb in an address. */
  readonly command: (verb: string) => Command
}): JSX.Element => {
  const at = isOff ? 0 : 1
  return (
    <Act
      scope="operate"
      class="small"
      icon={isOff ? "play" : "pause"}
      words={`${verbs[at]} ${name}`}
      title={titles[at]}
      command={command(verbs[at].toLowerCase())}
    >
      {verbs[at]}
    </Act>
  )
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
                if (undo !== undefined) void takeBack(undo)
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
