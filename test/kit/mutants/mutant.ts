/** A mutant: a correct transport with one promise broken, and the case that has to fail. */

import type { Jobs, Transport } from "../../../runtime/transport/job-store/transport.ts"
import type { ConnectOptions } from "../../../runtime/transport/mod.ts"

export type Connect = (options: ConnectOptions) => Promise<Transport>

export interface Mutant {
  /** Title of the case that must fail. */
  readonly breaks: string
  /** Which harness the case runs on: a full one, or one whose line can be cut. Defaults to `full`. */
  readonly on?: "full" | "line"
  /** Called once per run of the case; its state is shared by the connections of that run. */
  breaker(): (connect: Connect) => Connect
}

type Patch<T> = (whole: T, transport: Transport) => Partial<T>

/** Breaks each transport; `make` is called once per run. */
export const transportBroken =
  (make: () => (transport: Transport) => Transport): Mutant["breaker"] =>
  () => {
    const change = make()
    return (connect) => async (options) => change(await connect(options))
  }

/** Breaks what each transport does with jobs; `make` is called once per run. */
export const jobsBroken = (make: () => Patch<Jobs>): Mutant["breaker"] =>
  transportBroken(() => {
    const patch = make()
    return (transport) => ({ ...transport, jobs: { ...transport.jobs, ...patch(transport.jobs, transport) } })
  })
