/** A mutant: a good transport with one promise broken, and the case that must notice. */

import type { Queue, Records, Transport } from "../../../runtime/transport/lift/transport.ts"
import type { ConnectOptions } from "../../../runtime/transport/mod.ts"

export type Connect = (options: ConnectOptions) => Promise<Transport>

export interface Mutant {
  /** Title of the case that must fail. */
  readonly breaks: string
  /** Which harness the case runs on: a full one, or one whose line can be cut. Defaults to `full`. */
  readonly on?: "full" | "line"
  /** Called once per run of the case: what it remembers is shared by the connections of that run. */
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

/** Breaks the queue of each transport; `make` is called once per run. */
export const queueBroken = (make: () => Patch<Queue>): Mutant["breaker"] =>
  transportBroken(() => {
    const patch = make()
    return (transport) => ({ ...transport, queue: { ...transport.queue, ...patch(transport.queue, transport) } })
  })

export const recordsBroken = (make: () => Patch<Records>): Mutant["breaker"] =>
  transportBroken(() => {
    const patch = make()
    return (transport) => {
      const { records } = transport
      return { ...transport, records: { ...records, ...patch(records, transport) } }
    }
  })
