/** The functions that cases about a transport use. */
import type { JobPosting } from "../../runtime/protocol/message.ts"
import type { Transport } from "../../runtime/transport/job-store/transport.ts"
import type { Harness } from "./harness.ts"
import { Peer } from "./peer.ts"
import { type Bounds, rounds, Stage } from "./stage.ts"
import { type TaskFields, taskOf } from "./task.ts"

export { abortedTakes, size, sleep, taken } from "./stage.ts"

export class Context extends Stage<Transport, Harness, Peer> {
  static async run(
    harness: Harness,
    { lease, timeout }: Bounds,
    run: (context: Context) => Promise<void>,
  ): Promise<void> {
    await rounds(timeout, async (left) => {
      const context = new Context(harness, lease)
      await context.perform(left, () => run(context))
    })
  }

  protected make(): Peer {
    return new Peer(this)
  }

  /** A task to publish. Fields that are not given are generated. */
  readonly task = (fields: TaskFields): JobPosting => taskOf({ id: this.fresh("job"), ...fields })

  /** Several tasks for one queue. */
  readonly tasks = (count: number, fields: TaskFields): ReadonlyArray<JobPosting> =>
    Array.from({ length: count }, () => this.task(fields))
}
