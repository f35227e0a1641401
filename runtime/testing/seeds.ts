/** Runs a test under many seeds, so that an order of events that breaks it is found, and can be run again. */
import { type VirtualClock, virtualClock } from "./virtual-clock.ts"

export interface SeedOptions {
  /** How many seeds. Default: 100. */
  readonly seeds?: number
  /** The first seed; the others follow it. Default: 1. */
  readonly from?: number
}

/** Failure of {@link forEachSeed}: the test has failed under this seed, with `cause`. */
export class SeedFailed extends Error {
  readonly _tag = "SeedFailed"
  override readonly name = "SeedFailed"
  readonly seed: number
  constructor(seed: number, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause)
    super(`seed ${seed}: ${why}\nonly this one: forEachSeed({ from: ${seed}, seeds: 1 }, …)`, { cause })
    this.seed = seed
  }
}

/**
 * Runs a test once under each seed, with a virtual clock of that seed. Fails with {@link SeedFailed} at the first seed under which
 * the test does.
 *
 * ```ts
 * await forEachSeed({ seeds: 200 }, async (clock) => {
 *   await using run = await runActor(accounts, { clock })
 *   await Promise.allSettled([run.call.withdraw({ amount: 70 }), run.call.withdraw({ amount: 70 })])
 *   expect(await run.call.balance()).toBe(30)
 * })
 * ```
 */
export const forEachSeed = async (
  { seeds = 100, from = 1 }: SeedOptions,
  test: (clock: VirtualClock, seed: number) => Promise<void>,
): Promise<void> => {
  for (let seed = from; seed < from + seeds; seed++) {
    using clock = virtualClock({ seed })
    try {
      await test(clock, seed)
    } catch (cause) {
      throw new SeedFailed(seed, cause)
    }
  }
}
