/** The functions that cases about a driver use. */
import type { Driver, Posting } from "../../../runtime/transport/driver.ts"
import { type Bounds, rounds, Stage, size } from "../stage.ts"
import type { DriverHarness } from "./harness.ts"
import { DriverPeer } from "./peer.ts"
import { driverPosting, type PostingFields } from "./task.ts"

export { abortedTakes, size, sleep, taken } from "../stage.ts"

/** Longest wait for something slow, in milliseconds: longer with KIT=full, where there is more to do. */
export const patience = (ms: number): number => size(ms, 6 * ms)

export class DriverContext extends Stage<Driver, DriverHarness, DriverPeer> {
  static async run(
    harness: DriverHarness,
    { lease, timeout }: Bounds,
    run: (context: DriverContext) => Promise<void>,
  ): Promise<void> {
    await rounds(timeout, async (left) => {
      const context = new DriverContext(harness, lease)
      await context.perform(left, () => run(context))
    })
  }

  protected make(): DriverPeer {
    return new DriverPeer(this)
  }

  /** A due time that is so far away that the task does not fall due during the case. */
  readonly far = (): number => Date.now() + Math.min(60_000, this.harness.capabilities.delay)

  /** A posting. Fields that are not given are generated. */
  readonly task = (fields: PostingFields): Posting => driverPosting({ id: this.fresh("job"), ...fields })

  /** Several postings for one queue. */
  readonly tasks = (count: number, fields: PostingFields): ReadonlyArray<Posting> =>
    Array.from({ length: count }, () => this.task(fields))
}
