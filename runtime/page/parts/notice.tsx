/**
 * Actions on one job, queue or worker: they are done at once, reported at the bottom of the page, and undone from there
 * where that is possible.
 */
import { signal } from "@preact/signals"
import type { JSX } from "preact"
import { ApiError, type Query } from "../client.ts"
import { refresh, send } from "../state.ts"
import { ActionButton, type ActionButtonProps, Button, type Command } from "./basic.tsx"
import { Icon } from "./icon.tsx"

interface Call {
  readonly method: string
  readonly path: string
  readonly query?: Query
}

interface Notice {
  readonly words: string
  readonly isBad: boolean
  readonly undo?: Call
}

const notice = signal<Notice | undefined>(undefined)
let timer: ReturnType<typeof setTimeout> | undefined

/** Shows a message for some seconds. */
export const notify = (next: Notice): void => {
  clearTimeout(timer)
  notice.value = next
  timer = setTimeout(
    () => {
      notice.value = undefined
    },
    next.undo === undefined ? 6_000 : 12_000,
  )
}

/** The states of a job that has not started. */
const WAITING = "deferred,scheduled,queued"

/**
 * The request that undoes an action: a retried job that has not started is cancelled again, a cancelled one is retried.
 */
const undoOf = ({ path }: Call): Call | undefined => {
  const [, job, verb] = /^(\/v1\/jobs\/[^/]+)\/(retry|cancel|run-now)$/.exec(path) ?? []
  if (job === undefined || verb === "run-now") return undefined
  // Only a job that has not started is cancelled: a run that has begun has to go on.
  if (verb === "retry") return { method: "POST", path: `${job}/cancel`, query: { state: WAITING } }
  return { method: "POST", path: `${job}/retry` }
}

/** Makes the request of an action and shows its result. Resolves with whether it succeeded. */
export const runAction = async (
  words: string,
  method: string,
  path: string,
  query: Query = {},
  body?: unknown,
): Promise<boolean> => {
  try {
    await send(method, path, query, body)
    const undo = undoOf({ method, path })
    notify({ words: `${words}: done`, isBad: false, ...(undo === undefined ? {} : { undo }) })
    refresh()
    return true
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    notify({ words: `${words}: ${error.message}`, isBad: true })
    return false
  }
}

/** Why an action cannot be undone any more, by error code. */
const TOO_LATE: Readonly<Record<string, string>> = {
  "matches-differ": "the job has already started",
  "already-terminal": "the job has already ended",
  "job-exists": "the job was changed in the meantime",
}

const takeBack = async ({ method, path, query }: Call): Promise<void> => {
  try {
    await send(method, path, query)
    notify({ words: "Undo: done", isBad: false })
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const late = TOO_LATE[error.code]
    notify({ words: `Undo: ${late === undefined ? error.message : `too late, ${late}`}`, isBad: true })
  }
  refresh()
}

/** A button whose action needs no dialog. `words`: the action in the message about its result. */
export const RequestButton = ({
  words,
  command,
  ...button
}: Omit<ActionButtonProps, "onClick" | "command"> & {
  readonly words: string
  readonly command: Command
}): JSX.Element => (
  <ActionButton
    {...button}
    command={command}
    onClick={() => void runAction(words, command.method, command.path, command.query)}
  />
)

/** One button that pauses or resumes a queue, schedule or worker, whichever applies. */
export const PauseToggle = ({
  name,
  isOff,
  verbs,
  command,
  titles,
}: {
  readonly name: string
  readonly isOff: boolean
  /** Texts of the button to resume and to pause. */
  readonly verbs: readonly [on: string, off: string]
  readonly titles: readonly [on: string, off: string]
  /** The request for a verb. */
  readonly command: (verb: string) => Command
}): JSX.Element => {
  const at = isOff ? 0 : 1
  return (
    <RequestButton
      scope="operate"
      class="small"
      icon={isOff ? "play" : "pause"}
      words={`${verbs[at]} ${name}`}
      title={titles[at]}
      command={command(verbs[at].toLowerCase())}
    >
      {verbs[at]}
    </RequestButton>
  )
}

/** The place of the messages. It is always in the document, so that screen readers announce its changes. */
export const NoticeBar = (): JSX.Element => {
  const { value } = notice
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
          <Button class="small quiet sq" icon="x" label="Close" onClick={() => (notice.value = undefined)} />
        </div>
      )}
    </div>
  )
}
