/**
 * The memory transport with faults on command. With them tests see what HTTP answers while its transport is down, slow or gives
 * wrong answers.
 */
import type { LiftedPlugin } from "../../runtime/transport/job-store/plugin.ts"
import type { Transport } from "../../runtime/transport/job-store/transport.ts"
import { memory } from "./memory.ts"

/** Runs before or after a call reaches the transport. Throwing fails the call. */
export type Fault = (call: string) => void | Promise<void>

export class Faults {
  /** Runs before a call reaches the transport: when it throws, the call has not happened. */
  before: Fault = () => undefined
  /** Runs after the call: when it throws, the call has happened, and its answer is lost. */
  after: Fault = () => undefined
  /** Calls so far, by name: `jobs.publish`. */
  readonly calls = new Map<string, number>()
  /** Watches that have not ended. */
  readonly watching = new Set<AbortSignal>()
  readonly #listeners = new Set<(status: "connected" | "disconnected") => void>()

  #heal: () => void = () => undefined
  readonly #healed = new Promise<void>((resolve) => {
    this.#heal = resolve
  })

  /** Keeps a call without an answer until the test ends. */
  hang(): Promise<void> {
    return this.#healed
  }

  /** Ends all faults. Calls that were kept without an answer continue. */
  heal(): void {
    this.before = () => undefined
    this.after = () => undefined
    this.#heal()
  }

  status(status: "connected" | "disconnected"): void {
    for (const listener of this.#listeners) listener(status)
  }

  listen(listener: (status: "connected" | "disconnected") => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** The part of a transport with every method under these faults. */
  wrap<T extends object>(name: string, part: T): T {
    return new Proxy(part, {
      get: (target, key, receiver) => {
        const method: unknown = Reflect.get(target, key, receiver)
        if (typeof method !== "function") return method
        const call = `${name}.${String(key)}`
        return async (...args: ReadonlyArray<unknown>) => {
          this.calls.set(call, (this.calls.get(call) ?? 0) + 1)
          if (call === "jobs.watch") this.#watch(args[2])
          await this.before(call)
          const result: unknown = await Reflect.apply(method, target, args)
          await this.after(call)
          return result
        }
      },
    })
  }

  #watch(signal: unknown): void {
    if (!(signal instanceof AbortSignal) || signal.aborted) return
    this.watching.add(signal)
    signal.addEventListener("abort", () => this.watching.delete(signal))
  }
}

/** A plugin for `faulty:` URLs with these faults. `change` may remove further parts of the transport. */
export const faultyPlugin = (
  faults: Faults,
  change: (transport: Transport) => Transport = (same) => same,
): LiftedPlugin => ({
  schemes: ["faulty"],
  connect: async (url, options) => {
    const inner = await memory.connect(new URL(url.href.replace(/^faulty:/, "memory:")), options)
    const { jobs, store, broadcast } = inner
    return change({
      ...inner,
      jobs: faults.wrap("jobs", jobs),
      store: faults.wrap("store", store),
      ...(broadcast === undefined ? {} : { broadcast: faults.wrap("broadcast", broadcast) }),
      onStatus: (listener) => faults.listen(listener),
    })
  },
})
