/** A line between transports and their driver, for tests of cuts: nothing passes while it is cut, and answers to
 * calls that were under way are lost. */
import type { Capabilities } from "../../runtime/transport/driver.ts"
import type { Transport } from "../../runtime/transport/job-store/transport.ts"
import { TransportError } from "../../runtime/transport/mod.ts"

type Listener = Parameters<Transport["onStatus"]>[0]
type Connect<Options> = (options: Options) => Promise<Transport>

export class Line {
  #cutting = new AbortController()
  /** How many calls are still to be answered before one whose answer is lost; 0: none is lost. */
  #losing = 0
  readonly #listeners = new Set<Listener>()

  cut(): void {
    this.#cutting.abort()
    for (const listener of this.#listeners) listener("disconnected")
  }

  /** Fires with the next cut; has fired while it is cut. */
  get cutting(): AbortSignal {
    return this.#cutting.signal
  }

  /** Loses the answer to the call that is answered as the `count`th from now on. Returns a function that takes this back. */
  loseAnswer(count: number): () => void {
    this.#losing = count
    return () => {
      this.#losing = 0
    }
  }

  heal(): void {
    this.#cutting = new AbortController()
    for (const listener of this.#listeners) listener("connected")
  }

  /** Connections over this line. The board behind it outlives each cut, so they may declare durability. */
  over<Options>(connect: Connect<Options>, capabilities: Capabilities): Connect<Options> {
    return async (options) => {
      const transport = await this.guard(() => connect(options))()
      const { jobs, store, broadcast } = transport
      const { queues, waiting } = jobs
      const guard = this.guard.bind(this)
      return {
        ...transport,
        capabilities,
        jobs: {
          ...jobs,
          publish: guard(jobs.publish),
          // A take must end with the cut, or it would take tasks that its caller never gets.
          take: guard((request, signal) => jobs.take(request, AbortSignal.any([signal, this.#cutting.signal]))),
          claim: guard(jobs.claim),
          report: guard(jobs.report),
          settle: guard(jobs.settle),
          extend: guard(jobs.extend),
          find: guard(jobs.find),
          ended: guard(jobs.ended),
          decide: guard(jobs.decide),
          list: guard(jobs.list),
          ...(queues && { queues: guard(queues) }),
          ...(waiting && { waiting: guard(waiting) }),
        },
        store: {
          ...store,
          get: guard((keys) => store.get(keys)),
          write: guard((operations) => store.write(operations)),
          list: guard((range) => store.list(range)),
        },
        ...(broadcast && { broadcast: { ...broadcast, send: guard(broadcast.send) } }),
        onStatus: (listener) => this.onStatus(listener),
      }
    }
  }

  onStatus(listener: Listener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Wraps a call, which fails while the line is cut. */
  guard<Args extends ReadonlyArray<unknown>, T>(call: (...args: Args) => Promise<T>): (...args: Args) => Promise<T> {
    return async (...args) => {
      const { signal } = this.#cutting
      if (signal.aborted) throw new TransportError("unavailable", "the line is cut")
      const answer = call(...args)
      return new Promise<T>((resolve, reject) => {
        const lost = (): void => {
          reject(new TransportError("unavailable", "the line was cut before the answer", { outcome: "unknown" }))
        }
        signal.addEventListener("abort", lost, { once: true })
        const answered = (value: T): void => {
          if (this.#losing > 0 && --this.#losing === 0) lost()
          else resolve(value)
        }
        answer.then(answered, reject).finally(() => signal.removeEventListener("abort", lost))
      })
    }
  }
}
