/** What the author of a driver gives to the kit for the cases about drivers, in addition to the shared part. */
import type { Capabilities, Driver } from "../../../runtime/transport/driver.ts"
import type { ConnectOptions } from "../../../runtime/transport/mod.ts"
import type { Ground } from "../harness.ts"

/** The optional members of a driver and of its store; `browse` stands for `queues` and `waiting`. */
export type DriverPart = "query" | "count" | "browse" | "broadcast" | "watch" | "orphans"

export const DRIVER_PARTS: ReadonlyArray<DriverPart> = ["query", "count", "browse", "broadcast", "watch", "orphans"]

export interface DriverHarness extends Ground<Driver> {
  /** The capabilities that the driver has to declare, repeated here so that a change by mistake is noticed. */
  readonly capabilities: Capabilities
  /** Optional members that the driver has. Defaults to all, but `orphans` only where it is not atomic. */
  readonly parts?: ReadonlyArray<DriverPart>
  /**
   * Makes the commits of one connection fail after a step, as if the broker had died between two steps. An atomic driver
   * has stored nothing then. Absent where the broker cannot be made to fail there.
   */
  failAfter?(driver: Driver, step: "record" | "post"): () => void
  /**
   * Connects with this password, which the broker refuses, as an application would give it, in the URL. No error may tell
   * it. Absent where there is no authentication.
   */
  intrude?(options: ConnectOptions, password: string): Promise<Driver>
  /** Makes a driver from a client object that the application owns. Absent where there are no such objects. */
  adopt?(options: ConnectOptions): Promise<Adopted>
  /**
   * Carries the next `count` requests to the broker, from whichever connection sends first, and swallows the answer to the last
   * of them: that connection ends before its driver has read it. Returns a function that takes this back if no answer was lost so far.
   */
  loseAnswer?(count: number): () => void
  /**
   * Keeps the connections of all open drivers open and holds back what passes over them, in both directions, until `heal`,
   * which lets it through: nothing is dropped.
   */
  freeze?(): Promise<void>
  /**
   * Set for a broker that cannot tell an overtaken delivery from the newer one of the same task: the older token then still
   * extends, ends or gives back. The runtime compares fences there.
   */
  readonly blindTokens?: boolean
  /**
   * Set for a broker whose queues other programs read: when a lease ends, its task is put back into its queue, where they can
   * take it, so that the delivery has lost it although nobody has it yet.
   */
  readonly requeues?: boolean
  /** Set for a broker that counts a delivery to a take that was aborted in the meantime. */
  readonly countsAborts?: boolean
  /** Set for a broker that puts a task which was given back behind the others of its queue. */
  readonly losesPlaces?: boolean
  /** Longest time that a call may take while the broker does not answer, in milliseconds. Defaults to 15,000. */
  readonly bound?: number
}

export interface Adopted {
  readonly driver: Driver
  /** Whether the client still works for the application that owns it. */
  isOpen(): Promise<boolean>
}

/** The optional members that a driver is expected to have. */
export const partsOf = ({ parts, capabilities }: Pick<DriverHarness, "parts" | "capabilities">) =>
  parts ?? DRIVER_PARTS.filter((part) => part !== "orphans" || !capabilities.atomic)
