/** The search field, which leads to a job by its id, to the jobs of a task or queue, or to a view. */
import { signal, useSignal } from "@preact/signals"
import type { JSX } from "preact"
import type { JobList } from "../../jobs/lists.ts"
import { ApiError } from "../client.ts"
import { letters, toggleLetters } from "../keys.ts"
import { go, href } from "../router.ts"
import { get, setToken, token } from "../state.ts"
import { Button, Dialog } from "./basic.tsx"
import { VIEWS } from "./nav.ts"
import { ThemeButton } from "./theme.tsx"

const isOpen = signal(false)
export const openSearch = (): void => {
  isOpen.value = true
}

interface Target {
  readonly words: string
  readonly to: string
  /** The end of an id: where exactly one job has it, the target is that job. */
  readonly idEnds?: string
}

/** The targets of a text, the most likely first. */
const targetsOf = (text: string): ReadonlyArray<Target> => {
  const wanted = text.trim()
  const views = VIEWS.filter(({ title, shown }) => shown() && title.toLowerCase().includes(wanted.toLowerCase()))
  const toViews = views.map(({ title, name }) => ({ words: title, to: href(name) }))
  if (wanted === "") return toViews
  const job = { words: `Job ${wanted}`, to: href("job", wanted) }
  const task = { words: `Jobs of the task ${wanted}`, to: href("jobs", "", { task: wanted }) }
  const queue = { words: `Jobs in the queue ${wanted}`, to: href("jobs", "", { queue: wanted }) }
  // Ids are UUIDs unless the submitter has chosen another one.
  const isId = /^[\da-f]{8}-[\da-f-]{27}$/i.test(wanted)
  if (isId) return [job, ...toViews]
  // Lists show the last eight characters of an id.
  const end = wanted.replace(/^…/, "").toLowerCase()
  if (/^[\da-f]{8}$/.test(end))
    return [
      { words: `The job that ends in ${end}`, to: href("jobs", "", { idEnds: end }), idEnds: end },
      task,
      queue,
      job,
    ]
  return [...toViews, task, queue, job]
}

/** The address of a target. For the end of an id it is the job's if exactly one job has it, else that of the list. */
const placeOf = async ({ to, idEnds }: Target): Promise<string> => {
  if (idEnds === undefined) return to
  try {
    const { jobs } = await get<JobList>("/v1/jobs", { idEnds, limit: 2, budget: "1s" })
    const [only, ...others] = jobs
    return only !== undefined && others.length === 0 ? href("job", only.id) : to
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return to
  }
}

export const Search = (): JSX.Element | null => (isOpen.value ? <SearchDialog /> : null)

const SearchDialog = (): JSX.Element => {
  const text = useSignal("")
  const at = useSignal(0)
  const close = (): void => {
    isOpen.value = false
  }
  const targets = targetsOf(text.value)
  const follow = (target: Target | undefined): void => {
    if (target === undefined) return
    close()
    void placeOf(target).then((place) => go(place))
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
    if (by !== 0) at.value = Math.max(0, Math.min(targets.length - 1, at.value + by))
    else if (event.key === "Enter") follow(targets[at.value])
    else return
    event.preventDefault()
  }
  return (
    <Dialog
      title="Go to"
      onClose={close}
      footer={
        <>
          <span class="small dim">
            <kbd>/</kbd> search · <kbd>J</kbd> <kbd>K</kbd> next, previous · <kbd>Enter</kbd> open · <kbd>R</kbd> retry
            · <kbd>Esc</kbd> close
          </span>
          <span class="grow" />
          {/* On a phone these have no room anywhere else. */}
          <span class="only-s">
            <ThemeButton class="small quiet" />
            {token.value !== undefined && (
              <Button
                class="small quiet"
                onClick={() => {
                  close()
                  setToken(undefined)
                }}
              >
                Leave
              </Button>
            )}
          </span>
          <Button class="small quiet" pressed={letters.value} onClick={toggleLetters}>
            Letters {letters.value ? "on" : "off"}
          </Button>
          <Button onClick={close}>Close</Button>
        </>
      }
    >
      <input
        class="fld"
        type="text"
        role="combobox"
        aria-label="Id of a job, name of a task or view"
        aria-expanded="true"
        aria-controls="targets"
        aria-activedescendant={targets.length > 0 ? `target-${at.value}` : undefined}
        autocomplete="off"
        spellcheck={false}
        placeholder="Id of a job, task, queue, view"
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value
          at.value = 0
        }}
        onKeyDown={onKeyDown}
      />
      <div class="targets" id="targets" role="listbox" aria-label="Destination">
        {targets.map((target, index) => (
          <div
            key={target.to}
            id={`target-${index}`}
            role="option"
            aria-selected={index === at.value}
            tabIndex={-1}
            onClick={() => follow(target)}
            onKeyDown={onKeyDown}
          >
            {target.words}
          </div>
        ))}
      </div>
    </Dialog>
  )
}
