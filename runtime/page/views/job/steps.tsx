/** The durable steps of a job: the outcome of each, and which steps are still to be reverted. */
import { useSignal } from "@preact/signals"
import type { JSX } from "preact"
import type { FullJob } from "../../../jobs/responses.ts"
import type { StepPage } from "../../../steps/listing.ts"
import { jobPath } from "../../client.ts"
import { useLoad } from "../../load.ts"
import { Button, Empty, Note, Panel, Part } from "../../parts/basic.tsx"
import { Glyph, type GlyphName } from "../../parts/icon.tsx"
import { Pager } from "../../parts/pager.tsx"
import { Moment } from "../../parts/time.tsx"
import { get } from "../../state.ts"
import { duration } from "../../times.ts"

/** Most steps per page. */
const STEPS = 100

const LOOKS: Readonly<Record<string, readonly [glyph: GlyphName, word: string]>> = {
  done: ["succeeded", "Done"],
  failed: ["failed", "Failed"],
  reverted: ["cancelled", "Reverted"],
  "revert-failed": ["dead", "Revert failed"],
  waiting: ["scheduled", "Waiting"],
}

/**
 * Shows the steps of a job that waits, or whose steps are being or were reverted, at once; those of any other job when the reader
 * opens the panel, since most jobs have no durable steps and a request for each would be wasted.
 */
export const DurableSteps = ({ job, isEnded }: { readonly job: FullJob; readonly isEnded: boolean }): JSX.Element => {
  const { id, run, reverting, reverted, unreverted, waits } = job
  const chosen = useSignal<boolean | undefined>(undefined)
  const cursors = useSignal<ReadonlyArray<string>>([])
  const isOpen =
    chosen.value ?? (reverting !== undefined || reverted === true || unreverted !== undefined || waits !== undefined)
  const cursor = cursors.value.at(-1)
  const steps = useLoad(
    isOpen ? `${id} ${run} ${isEnded} ${cursor ?? ""}` : undefined,
    (stop) => get<StepPage>(jobPath(id, "/steps"), { limit: STEPS, cursor }, stop),
    { every: isEnded ? 0 : 2, keep: true },
  )
  const words = isOpen ? "Hide" : "Show"
  return (
    <Panel
      title="Durable steps"
      hint={reverted === true ? "all were reverted" : undefined}
      tools={
        <Button class="small quiet" label={`${words} the durable steps`} onClick={() => (chosen.value = !isOpen)}>
          {words}
        </Button>
      }
    >
      {isOpen && (
        <Part of={steps} rows={3}>
          {(page) => (
            <>
              <div class="body stackv">
                <NotReverted names={unreverted} page={reverting === undefined ? undefined : page} />
                {page.steps.length === 0 ? (
                  <Empty title="No durable step has ended" />
                ) : (
                  <StepList steps={page.steps} />
                )}
              </div>
              <Pager cursors={cursors} next={page.next} back="Before" forth="After" />
            </>
          )}
        </Part>
      )}
    </Panel>
  )
}

/** Names the steps that are still to be reverted: `names` once the job has ended, before that those of the `page`. */
const NotReverted = ({
  names,
  page,
}: {
  readonly names: ReadonlyArray<string> | undefined
  readonly page: StepPage | undefined
}): JSX.Element | null => {
  const left = names ?? page?.steps.flatMap(({ name, state, revert }) => (revert && state !== "reverted" ? [name] : []))
  if (left === undefined || left.length === 0) return null
  return (
    <Note kind="warn" icon="errors">
      {names === undefined ? "Not yet reverted: " : "Not reverted: "}
      <b>{left.join(", ")}</b>
      {names !== undefined && ". Retry the job to continue reverting."}
    </Note>
  )
}

const WaitedFor = ({ step: { signal, job, until } }: { readonly step: StepPage["steps"][number] }): JSX.Element => (
  <span>
    {signal !== undefined && (
      <>
        {" "}
        for the signal <b>{signal}</b>
      </>
    )}
    {job !== undefined && (
      <>
        {" "}
        for the job <b>{job}</b>
      </>
    )}
    {until !== undefined && (
      <>
        {" "}
        until <Moment at={until} as="exact" />
      </>
    )}
  </span>
)

const StepList = ({ steps }: Pick<StepPage, "steps">): JSX.Element => (
  <ol class="steps">
    {steps.map((step) => {
      const { name, state, at, took, tries, value, large, error } = step
      const [glyph, word] = LOOKS[state] ?? ["queued", state]
      return (
        <li key={name}>
          <Moment at={at} as="exact" />
          <Glyph name={glyph} label={word} />
          <span>
            <b>{name}</b> {word.toLowerCase()}
            {state === "waiting" ? <WaitedFor step={step} /> : `, ${duration(took)}`}
            {tries > 1 && `, ${tries} tries`}
            {error !== undefined && (
              <span>
                : <b class="bad">{error.name}</b> {error.message}
              </span>
            )}
            {value !== undefined && <span class="mono small dim clip2">{value}</span>}
            {large === true && <span class="small dim">, its result is too large to show</span>}
          </span>
        </li>
      )
    })}
  </ol>
)
