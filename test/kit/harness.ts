/** What the author of a plugin gives to the kit: the declared capabilities, how to connect, and how to disturb the broker. */
import type { Capabilities } from "../../runtime/transport/driver.ts"
import type { Transport } from "../../runtime/transport/job-store/transport.ts"
import type { ConnectOptions } from "../../runtime/transport/mod.ts"

export interface Harness extends Ground<Transport> {
  readonly capabilities: Capabilities
  /** Whether it can list jobs. Defaults to true. */
  readonly canList?: boolean
}

/** The part that both levels of the kit need. `Connection` is a transport or a driver. */
export interface Ground<Connection> {
  /** First word of the titles of cases. */
  readonly name: string
  readonly capabilities: { readonly leaseResolution: number }

  /**
   * Opens a transport with these options and no others. Called several times per case; all transports of one namespace
   * must share one board. The kit closes them.
   */
  connect(options: ConnectOptions): Promise<Connection>

  /**
   * Like `connect`, from as far away as the transport's reach goes: over another client, from another thread or
   * process. Defaults to `connect`.
   */
  second?(options: ConnectOptions): Promise<Connection>

  /**
   * Stops the broker in good order and starts it again with its data. Open transports must recover by themselves. Absent
   * where there is nothing to restart.
   */
  restart?(): Promise<void>

  /** Like `restart`, but ends it without warning (`kill -9`). */
  kill?(): Promise<void>

  /** Cuts the connections of all open transports, in both directions, until `heal`. */
  cut?(): Promise<void>
  heal?(): Promise<void>

  /** Posts one more task to a queue, whose content is these bytes: they are no message. Tasks that are there stay as they are. */
  corrupt?(queue: string, bytes: Uint8Array, namespace: string): Promise<void>

  /** Removes the data of a namespace. Called after each case. */
  clean?(namespace: string): Promise<void>

  /** Largest difference between the clocks of transport and kit, in milliseconds. Defaults to 20. */
  readonly clockTolerance?: number

  /**
   * Set for a transport that asks its broker one queue and level after the other: a task that is accepted while a take is
   * under way, or that the broker has not heard of yet (does not count in `stats`) when it is asked, may come after what
   * that take brings.
   */
  readonly lanewise?: boolean

  /** Set for a transport that looks for new tasks in intervals of up to a second, instead of being woken. */
  readonly slow?: boolean

  /**
   * What the transport may be late by on a busy machine, in milliseconds. Defaults to 1,000, or 2,500 for a slow one. With
   * more than 1,000 leases are twice as long, so that a connection on a busy machine keeps its own.
   */
  readonly slack?: number
}
