/** The actions on a job: retry, run now, cancel, delete. */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import type { FullJob } from "../../../jobs/responses.ts"
import { onePath } from "../../bulk.ts"
import { jobPath } from "../../client.ts"
import { useKey } from "../../keys.ts"
import { ActionButton, Button, Check, Dialog } from "../../parts/basic.tsx"
import { RequestButton, runAction } from "../../parts/notice.tsx"
import { idEnd } from "../../seen.ts"
import { may } from "../../state.ts"

const RETRYABLE = ["failed", "cancelled", "expired"]

/** Every button is shown in every state, disabled where it does not apply: no button moves to where another one was. */
export const Actions = ({ job, isEnded }: { readonly job: FullJob; readonly isEnded: boolean }): JSX.Element => {
  const isCancelling = useSignal(false)
  const isDeleting = useSignal(false)
  const canRetry = RETRYABLE.includes(job.state)
  const isDead = job.dead !== undefined
  const retryPath = onePath(isDead ? "redrive" : "retry", job.id)
  const retry = (): void => {
    if (canRetry && may("operate")) void runAction(`Retry ${idEnd(job.id)}`, "POST", retryPath)
  }
  useKey("r", retry)
  // A job that waits would look, and wait again.
  const canRun = job.state === "scheduled" && job.waits === undefined
  return (
    <>
      <ActionButton
        scope="operate"
        class={canRetry ? "main" : ""}
        icon="retry"
        onClick={retry}
        command={{ method: "POST", path: retryPath }}
        off={canRetry ? undefined : isEnded ? "It has succeeded" : "It has not ended"}
      >
        Retry
      </ActionButton>
      <RequestButton
        scope="operate"
        class={canRun ? "main" : ""}
        icon="play"
        words={`Run ${idEnd(job.id)} now`}
        command={{ method: "POST", path: jobPath(job.id, "/run-now") }}
        off={canRun ? undefined : job.waits === undefined ? "It is not scheduled for later" : "Its handler waits"}
      >
        Run now
      </RequestButton>
      <ActionButton
        scope="operate"
        onClick={() => (isCancelling.value = true)}
        command={{ method: "POST", path: jobPath(job.id, "/cancel") }}
        off={isEnded ? "It has ended" : undefined}
      >
        Cancel…
      </ActionButton>
      <ActionButton
        scope="admin"
        class="danger"
        icon="trash"
        onClick={() => (isDeleting.value = true)}
        command={{ method: "DELETE", path: jobPath(job.id) }}
        off={isEnded ? undefined : "Cancel it first"}
      >
        Delete…
      </ActionButton>
      {isCancelling.value && <Cancel job={job} onClose={() => (isCancelling.value = false)} />}
      {isDeleting.value && <Delete job={job} onClose={() => (isDeleting.value = false)} />}
    </>
  )
}

const Cancel = ({ job, onClose }: { readonly job: FullJob; readonly onClose: () => void }): JSX.Element => {
  const terminate = useSignal(false)
  return (
    <Dialog
      title={`Cancel ${job.name}?`}
      lead={
        job.state === "started"
          ? "It is running: its signal fires, and its result is discarded."
          : "It will not run. You can retry it as long as it is kept."
      }
      onClose={onClose}
      footer={
        <>
          <span class="grow" />
          <Button onClick={onClose}>Close</Button>
          <Button
            class="danger main"
            onClick={() => {
              onClose()
              const query = terminate.value ? { terminate: true } : {}
              void runAction(`Cancel ${idEnd(job.id)}`, "POST", jobPath(job.id, "/cancel"), query)
            }}
          >
            Cancel the job
          </Button>
        </>
      }
    >
      {job.state === "started" && (
        <Check
          label="Kill it at once"
          hint="Kills the process of an isolated handler. If another handler blocks its worker, the worker's process exits, and its other jobs run again."
          checked={terminate.value}
          onChange={(checked) => {
            terminate.value = checked
          }}
        />
      )}
    </Dialog>
  )
}

const Delete = ({ job, onClose }: { readonly job: FullJob; readonly onClose: () => void }): JSX.Element => {
  const typed = useSignal("")
  const end = idEnd(job.id)
  return (
    <Dialog
      title={`Delete ${job.name}?`}
      lead="Its record, result and error are deleted. This cannot be undone."
      onClose={onClose}
      footer={
        <>
          <span class="grow" />
          <Button onClick={onClose}>Close</Button>
          <Button
            class="danger main"
            disabled={typed.value.trim() !== end}
            onClick={() => {
              onClose()
              void runAction(`Delete ${end}`, "DELETE", jobPath(job.id))
            }}
          >
            Delete permanently
          </Button>
        </>
      }
    >
      <label class="stackv">
        Type {end}
        <input
          class="fld mono"
          type="text"
          autocomplete="off"
          spellcheck={false}
          value={typed.value}
          onInput={(event) => {
            typed.value = event.currentTarget.value
          }}
        />
      </label>
    </Dialog>
  )
}
