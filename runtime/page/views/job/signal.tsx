/** Sends a signal to a job whose handler waits for one. */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import type { FullJob } from "../../../jobs/responses.ts"
import { jobPath } from "../../client.ts"
import { ActionButton, Button, Dialog, Note } from "../../parts/basic.tsx"
import { runAction } from "../../parts/notice.tsx"
import { idEnd } from "../../seen.ts"

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** `names`: the signals for which the handler waits. */
export const SignalButton = ({
  job,
  names,
}: {
  readonly job: FullJob
  readonly names: ReadonlyArray<string>
}): JSX.Element => {
  const isOpen = useSignal(false)
  const chosen = useSignal(names[0] ?? "")
  // What was typed is kept when the service refuses it.
  const typed = useSignal("")
  const name = names.includes(chosen.value) ? chosen.value : (names[0] ?? "")
  const text = typed.value.trim()
  const isValid = text === "" || isJson(text)
  const path = jobPath(job.id, `/signals/${encodeURIComponent(name)}`)
  const send = async (): Promise<void> => {
    if (!isValid) return
    isOpen.value = false
    const value: unknown = text === "" ? null : JSON.parse(text)
    if (await runAction(`Signal ${name} to ${idEnd(job.id)}`, "POST", path, {}, { value })) typed.value = ""
  }
  return (
    <>
      <ActionButton
        scope="submit"
        class="small"
        icon="play"
        onClick={() => (isOpen.value = true)}
        command={{ method: "POST", path, body: { value: null } }}
      >
        Send the signal…
      </ActionButton>
      {isOpen.value && (
        <Dialog
          title={`Send a signal to ${job.name}?`}
          lead="Its handler gets the value and continues. This cannot be undone."
          onClose={() => (isOpen.value = false)}
          footer={
            <>
              <span class="grow" />
              <Button onClick={() => (isOpen.value = false)}>Close</Button>
              <Button class="main" disabled={!isValid} onClick={() => void send()}>
                Send {name}
              </Button>
            </>
          }
        >
          <div class="stackv">
            {names.length > 1 && (
              <label class="stackv">
                Signal
                <select
                  class="fld"
                  value={name}
                  onChange={(event) => {
                    chosen.value = event.currentTarget.value
                  }}
                >
                  {names.map((each) => (
                    <option key={each} value={each}>
                      {each}
                    </option>
                  ))}
                </select>
              </label>
            )}
            <label class="stackv">
              Value, as JSON
              <textarea
                class="fld mono"
                rows={3}
                spellcheck={false}
                placeholder="null"
                value={typed.value}
                onInput={(event) => {
                  typed.value = event.currentTarget.value
                }}
              />
            </label>
            {!isValid && (
              <Note kind="warn" icon="errors">
                This is not JSON. Put text in double quotes.
              </Note>
            )}
          </div>
        </Dialog>
      )}
    </>
  )
}
