/** Cases about drivers, and what a case needs of a driver. */
import type { CaseOf, NeedOf } from "../case.ts"
import type { DriverContext } from "./context.ts"
import { type DriverHarness, type DriverPart, partsOf } from "./harness.ts"

export type DriverCase = CaseOf<DriverHarness, DriverContext>
type Need = NeedOf<DriverHarness>

/** The case needs an optional member. */
export const part =
  (name: DriverPart): Need =>
  (harness) =>
    partsOf(harness).includes(name) || `it has no ${name}`

export const waits: Need = ({ capabilities }) => capabilities.waits || "its take does not wait (waits: false)"
/** The case needs a driver whose `take` does not wait by itself: only for such a driver the runtime waits for news of a queue. */
export const looks: Need = ({ capabilities }) => !capabilities.waits || "its take waits by itself (waits: true)"
export const boundedDelay: Need = ({ capabilities }) =>
  Number.isFinite(capabilities.delay) || "it keeps any due time (delay: Infinity)"
export const front: Need = ({ capabilities }) => capabilities.front || "it has no front (front: false)"
export const noFront: Need = ({ capabilities }) => !capabilities.front || "it has a front (front: true)"
export const manyBands: Need = ({ capabilities }) => capabilities.bands > 1 || "its levels are all one (bands: 1)"
export const strictOrder: Need = ({ lanewise }) =>
  lanewise !== true || "what is accepted while it takes may come after what that take brings (lanewise)"
export const dedupe: Need = ({ capabilities }) =>
  capabilities.dedupeWindow > 0 || "it does not recognise publish keys (dedupeWindow: 0)"
export const atomic: Need = ({ capabilities }) => capabilities.atomic || "its commits have steps (atomic: false)"
export const stepwise: Need = ({ capabilities }) => !capabilities.atomic || "its commits are whole (atomic: true)"
export const ownTokens: Need = ({ blindTokens }) =>
  blindTokens !== true || "its broker cannot tell an overtaken delivery (blindTokens)"
export const holdsOn: Need = ({ requeues }) =>
  requeues !== true || "its broker puts a task back into its queue when the lease ends (requeues)"
export const uncountedAborts: Need = ({ countsAborts }) =>
  countsAborts !== true || "its broker counts what an aborted take gives back (countsAborts)"
export const keepsPlaces: Need = ({ losesPlaces }) =>
  losesPlaces !== true || "its broker puts what is given back behind the others (losesPlaces)"
/** The case needs a function that only the harness of a driver has. */
export const offered =
  (name: "failAfter" | "intrude" | "adopt" | "freeze" | "loseAnswer"): Need =>
  (harness) =>
    harness[name] !== undefined || `its harness offers no ${name}()`
