/** Decisions of a view: called once at a time, and what came of them in words. */
import { type Signal, useSignal } from "@preact/signals"
import type { ComponentChildren, JSX } from "preact"
import { ApiError } from "../client.ts"
import { send } from "../state.ts"
import { type Command, Note } from "./basic.tsx"

interface Outcome {
  readonly failed: boolean
  readonly words: ComponentChildren
}

export interface Acting {
  readonly outcome: Signal<Outcome | undefined>
  /** Calls; `done` says in words what came of it. What fails says so itself. */
  readonly act: <T>(command: Command, done: (value: T) => ComponentChildren) => void
}

/** `after` is called when the board has changed. */
export const useActing = (after: () => void): Acting => {
  const outcome = useSignal<Outcome | undefined>(undefined)
  const busy = useSignal(false)
  const call = async <T,>(
    { method, path, query, body }: Command,
    done: (value: T) => ComponentChildren,
  ): Promise<void> => {
    busy.value = true
    try {
      outcome.value = { failed: false, words: done(await send<T>(method, path, query, body)) }
      after()
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      const needs = error.scope === undefined ? "" : ` Your token needs the scope ${error.scope}.`
      outcome.value = { failed: true, words: `Nothing was changed: ${error.message}.${needs}` }
    } finally {
      busy.value = false
    }
  }
  return {
    outcome,
    act: (command, done) => {
      if (!busy.value) void call(command, done)
    },
  }
}

/** What came of the last decision. It is there from the start, so that it is read out when it has something to say. */
export const Outcomes = ({ of }: { readonly of: Acting }): JSX.Element => (
  <div class="outcomes" role="status">
    {of.outcome.value !== undefined && (
      <div class="body">
        <Note kind={of.outcome.value.failed ? "bad" : ""} icon={of.outcome.value.failed ? "errors" : "check"}>
          {of.outcome.value.words}
        </Note>
      </div>
    )}
  </div>
)
