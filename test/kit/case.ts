/** A case as data: no runner is imported to define one. */
import type { Context } from "./context.ts"
import type { Ground, Harness } from "./harness.ts"

/** What a case cannot do without: `true`, or why this transport is spared. */
export type Need = NeedOf<Harness>
export type NeedOf<H> = (harness: H) => true | string

export type Case = CaseOf<Harness, Context>

/** A case of either level of the kit. */
export interface CaseOf<H, C> {
  readonly group: string
  /** A sentence about behaviour; unique within its group. */
  readonly name: string
  readonly needs?: ReadonlyArray<NeedOf<H>>
  /** Lease of its connections, in milliseconds. Defaults to 30,000: long enough to play no part. */
  readonly lease?: number
  /** Longest that it may take, in milliseconds. Defaults to 60,000. */
  readonly timeout?: number
  /** Disturbs others (restarts a server): must run alone. */
  readonly exclusive?: boolean
  run(context: C): Promise<void>
}

export const titleOf = ({ group, name }: { readonly group: string; readonly name: string }): string =>
  `${group}: ${name}`

/** Why a harness is spared a case; `undefined` when it is not. */
export const spared = <H>({ needs = [] }: Pick<CaseOf<H, never>, "needs">, harness: H): string | undefined => {
  for (const need of needs) {
    const met = need(harness)
    if (met !== true) return met
  }
  return undefined
}

/** Needs something that the harness can do to the transport. */
export const hook =
  (name: "restart" | "kill" | "cut" | "corrupt"): NeedOf<Ground<unknown>> =>
  (harness) =>
    harness[name] !== undefined || `its harness offers no ${name}()`

/** Needs a transport that can list jobs. */
export const lists: Need = ({ canList = true }) => canList || "it cannot list jobs"
export const delay: Need = ({ capabilities }) => capabilities.delay > 0 || "it keeps no due times (delay: 0)"
export const durable: Need = ({ capabilities }) =>
  capabilities.durability !== "none" || "nothing survives its process (durability: none)"
