/**
 * Workers inside this process that can die, for boards that only one process can see: from one moment on no call of such a worker
 * reaches the board, and no answer or news of the board reaches the worker.
 */
import { TransportError } from "callboard/transport"
import type { LiftedPlugin } from "../../runtime/transport/job-store/plugin.ts"
import type { Transport } from "../../runtime/transport/job-store/transport.ts"
import { memory } from "../support/memory.ts"

export interface Mortal {
  /** For `serve`; `mortal://name` is the board `memory://name`. */
  readonly transports: Readonly<Record<string, LiftedPlugin>>
  /** Cuts every connection that was made with these transports, for good. Calls that are under way are lost as well. */
  die(): void
}

export const mortal = (): Mortal => {
  const death = new AbortController()
  const gone = () => new TransportError("closed", "this worker is dead")
  const cutOff = <P extends object>(part: P): P =>
    new Proxy(part, {
      get: (target, name) => {
        const method: unknown = Reflect.get(target, name)
        if (typeof method !== "function") return method
        return async (...given: ReadonlyArray<unknown>) => {
          if (death.signal.aborted) throw gone()
          // Waits and subscriptions at the board end.
          const args = given.map((each) => (each instanceof AbortSignal ? AbortSignal.any([each, death.signal]) : each))
          const answer: unknown = await Reflect.apply(method, target, args)
          if (death.signal.aborted) throw gone()
          return answer
        }
      },
    })
  const cut = ({ jobs, store, broadcast, ...transport }: Transport): Transport => ({
    ...transport,
    jobs: cutOff(jobs),
    store: cutOff(store),
    ...(broadcast === undefined ? {} : { broadcast: cutOff(broadcast) }),
  })
  const plugin: LiftedPlugin = {
    schemes: ["mortal"],
    connect: async (url, options) =>
      cut(await memory.connect(new URL(url.href.replace(/^mortal:/, "memory:")), options)),
  }
  return { transports: { mortal: plugin }, die: () => death.abort() }
}
