/** What a case about a driver works with. */
import type { Driver, Posting } from "../../../runtime/transport/driver.ts"
import { type Bounds, rounds, Stage, size } from "../stage.ts"
import type { DriverHarness } from "./harness.ts"
import { DriverPeer } from "./peer.ts"
import { driverPosting, type PostingFields } from "./task.ts"

export { size, sleep } from "../stage.ts"

/** How long is waited for something slow, in milliseconds: longer where there is more of it. */
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

  /** A time that a task may be due at, far enough to play no part. */
  readonly far = (): number => Date.now() + Math.min(60_000, this.harness.capabilities.delay)

  /** A task on its way into a queue. What is not said is made up. */
  readonly task = (fields: PostingFields): Posting => driverPosting({ id: this.fresh("job"), ...fields })

  /** Several tasks for one queue. */
  readonly tasks = (count: number, fields: PostingFields): ReadonlyArray<Posting> =>
    Array.from({ length: count }, () => this.task(fields))
}
