/** The form of a case. Cases are data, so that defining one needs no test runner. */
import type { Context } from "./context.ts"
import type { Ground, Harness } from "./harness.ts"

/** Whether a transport has what a case needs: `true`, or the reason why the case is skipped. */
export type Need = NeedOf<Harness>
export type NeedOf<H> = (harness: H) => true | string
/** A need of cases of both levels. */
type SharedNeed = NeedOf<{
  readonly capabilities: { readonly delay: number; readonly durability: string; readonly leases?: string }
}>

export type Case = CaseOf<Harness, Context>

/** A case of either level of the kit. */
export interface CaseOf<H, C> {
  readonly group: string
  /** A sentence about the behaviour, unique within the group. */
  readonly name: string
  readonly needs?: ReadonlyArray<NeedOf<H>>
  /** Lease of its connections, in milliseconds. Defaults to 30,000, longer than the case runs. */
  readonly lease?: number
  /** Time limit of the case, in milliseconds. Defaults to 60,000. */
  readonly timeout?: number
  /** Runs for its whole group over transports whose drivers are tested by themselves, since its result can depend on the transport. */
  readonly smoke?: boolean
  /** The case restarts or cuts the server, and has to run alone. */
  readonly exclusive?: boolean
  run(context: C): Promise<void>
}

export const titleOf = ({ group, name }: { readonly group: string; readonly name: string }): string =>
  `${group}: ${name}`

/** Why a case is skipped for a harness; `undefined` where it runs. */
export const spared = <H>({ needs = [] }: Pick<CaseOf<H, never>, "needs">, harness: H): string | undefined => {
  for (const need of needs) {
    const met = need(harness)
    if (met !== true) return met
  }
  return undefined
}

/** The case needs a function of the harness, such as `restart`. */
export const hook =
  (name: "restart" | "kill" | "cut" | "corrupt"): NeedOf<Ground<unknown>> =>
  (harness) =>
    harness[name] !== undefined || `its harness offers no ${name}()`

/** The case needs a transport that can list jobs. */
export const lists: Need = ({ canList = true }) => canList || "it cannot list jobs"
export const delay: SharedNeed = ({ capabilities }) => capabilities.delay > 0 || "it keeps no due times (delay: 0)"
export const durable: SharedNeed = ({ capabilities }) =>
  capabilities.durability !== "none" || "nothing survives its process (durability: none)"
/**
 * The case needs deliveries that may be `fresh` (`first` for a driver), tokens that work on every connection, and tasks that come by themselves: where
 * queues and records lie apart, an older task of a job may come after it was withdrawn, or not at all once a newer one has ended,
 * and queues have no news.
 */
export const freeLeases: SharedNeed = ({ capabilities }) =>
  capabilities.leases !== "connection" || "a delivery belongs to the connection that took it (leases: connection)"
