/** What the author of a plugin tells the kit: what the transport claims, how to reach it, and what can be done to it. */
import type { Capabilities } from "../../runtime/transport/driver.ts"
import type { Transport } from "../../runtime/transport/lift/transport.ts"
import type { ConnectOptions } from "../../runtime/transport/mod.ts"

export interface Harness extends Ground<Transport> {
  readonly capabilities: Capabilities
  /** Whether it can list jobs. Defaults to true. */
  readonly canList?: boolean
}

/** What both levels of the kit are told; `Connection` is a transport, or the driver of one. */
export interface Ground<Connection> {
  /** Begins the titles of reports. */
  readonly name: string
  readonly capabilities: { readonly leaseResolution: number }

  /**
   * Opens a transport with these options and no others. Called several times per case; all transports of one namespace
   * must meet on one board. The kit closes what it opened.
   */
  connect(options: ConnectOptions): Promise<Connection>

  /**
   * Like `connect`, from as far away as the transport's reach goes: over another client, from another thread or
   * process. Defaults to `connect`.
   */
  second?(options: ConnectOptions): Promise<Connection>

  /**
   * Stops what the transport stands on (a server, say), in good order, and starts it again with what it stored.
   * Transports that are open must recover by themselves. Absent where there is nothing to restart.
   */
  restart?(): Promise<void>

  /** Like `restart`, but ends it without warning (`kill -9`). */
  kill?(): Promise<void>

  /** Cuts the connections of all open transports, until `heal`. Meanwhile nothing arrives, in either direction. */
  cut?(): Promise<void>
  heal?(): Promise<void>

  /** Puts bytes that are no message where a task of this queue should be. */
  corrupt?(queue: string, bytes: Uint8Array, namespace: string): Promise<void>

  /** Removes what a case left behind in its namespace. Called after each case. */
  clean?(namespace: string): Promise<void>

  /** How far the clocks of transport and kit may be apart, in milliseconds. Defaults to 20. */
  readonly clockTolerance?: number

  /**
   * Set for a transport that asks its broker one queue and level after the other: a task that is accepted while a pull is
   * under way, or that the broker has not heard of yet (does not count in `stats`) when it is asked, may come after what
   * that pull brings.
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
