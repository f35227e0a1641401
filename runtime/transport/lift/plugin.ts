/** The two kinds of plugins that the runtime can connect: one with a driver, and one with a whole transport (tests). */
import type { ConnectOptions, Driver, Plugin } from "../driver.ts"
import type { Transport } from "./transport.ts"

/** A plugin that returns a transport instead of a driver. Tests use it to put faults between the runtime and a transport. */
export interface LiftedPlugin extends Pick<Plugin, "schemes"> {
  connect(url: URL, options: ConnectOptions): Promise<Transport>
  adopt?(client: unknown, options: ConnectOptions): Promise<Transport> | undefined
}

export type AnyPlugin = Plugin | LiftedPlugin

/** Lifts a driver. The code that does it is loaded when the first driver connects. */
export const asTransport = async (
  connected: Transport | Driver,
  options: Pick<ConnectOptions, "lease">,
): Promise<Transport> => ("commit" in connected ? (await import("./lift.ts")).lift(connected, options) : connected)
