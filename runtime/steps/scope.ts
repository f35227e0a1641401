/** The tries of a scope: which steps belong to one, and what its controller decides. */
import { type RetryController, type ScopeDecision, type ScopeOptions, type ScopeTry, StepError } from "../actor/step.ts"
import { refuseInput, refuseUnknown } from "../options/refuse.ts"
import { isObject } from "../protocol/guards.ts"
import { checkName } from "./calls.ts"
import { isWithin, type StepState } from "./fold.ts"
import type { StepFailure } from "./page.ts"

/** A step with a revert, and its outcome. */
export type EndedStep = Pick<StepState, "name" | "order" | "value" | "large" | "failure" | "undone">

/** One try of a scope, in one run of its handler. */
export class Try {
  /** Name of the scope and number of the try: the names of all of its steps begin with it. */
  readonly label: string
  readonly outer: Try | undefined
  /** The steps with a revert that have ended, in this try and in the scopes inside of it. */
  readonly ended: Array<EndedStep> = []
  /** Number of steps, of this try and of the scopes inside of it, that have not ended; those that never will included. */
  begun = 0
  /** Number of those whose function runs or whose outcome is being stored, and of the tries that are being reverted. */
  running = 0
  /** Whether its steps that have not ended never will, and are no longer counted. */
  isForgotten = false
  /** `failed`: its steps are to be reverted, and further ones do not begin. `over`: those that have ended are not begun again. */
  state: "open" | "failed" | "over" = "open"

  constructor(label: string, outer: Try | undefined) {
    this.label = label
    this.outer = outer
  }

  /** This try and those around it. */
  *chain(): Generator<Try> {
    yield this
    if (this.outer !== undefined) yield* this.outer.chain()
  }

  is(state: Try["state"]): boolean {
    return this.chain().some((each) => each.state === state)
  }

  /** Whether a step may begin in it. */
  get isOpen(): boolean {
    return this.chain().every(({ state }) => state === "open")
  }

  /** The whole name of a step inside of it. */
  nameOf(name: string): string {
    checkName(name)
    return `${this.label}/${name}`
  }

  has(name: string): boolean {
    return isWithin(this.label, name)
  }
}

const SCOPE_OPTIONS = { retry: true } satisfies Record<keyof ScopeOptions<unknown>, true>

export const controllerOf = <V>(options: ScopeOptions<V>): RetryController<V> => {
  refuseUnknown(options, SCOPE_OPTIONS, "scope()")
  const { retry } = options
  if (!isObject(retry) || typeof retry.next !== "function" || typeof retry.onFailure !== "function")
    refuseInput("retry", "must be a controller, such as times(3)")
  return retry
}

const DECISIONS: ReadonlySet<unknown> = new Set<ScopeDecision>(["retry", "revert", "revert-all"])

/** No controller is asked about a failure that is to fail the job for good. */
export const decisionOf = <V>(controller: RetryController<V>, history: ReadonlyArray<ScopeTry<V>>): ScopeDecision => {
  if (history.at(-1)?.error.is("Reject")) return "revert"
  const decision = controller.onFailure(history)
  if (!DECISIONS.has(decision)) refuseInput("retry", 'onFailure must return "retry", "revert" or "revert-all"')
  return decision
}

/** The error with which a scope gives up, so that no scope around it is tried again, and neither is the job. */
export const finalError = (name: "RevertAll" | "RevertFailed", failure: StepFailure, cause: StepError): StepError =>
  new StepError({ ...failure, names: [name, "Reject", ...failure.names], cause })
