/** Plugins of both contracts, until all plugins that ship are drivers. */
import type { Driver, DriverPlugin } from "../driver.ts"
import type { ConnectOptions, Plugin, Transport } from "../mod.ts"

/** Connects to a driver, or to a transport that is whole by itself. */
export type AnyPlugin = Plugin | DriverPlugin

/** What a plugin connected to, as client and worker use it. What a driver needs is loaded with the first driver. */
export const asTransport = async (
  connected: Transport | Driver,
  options: Pick<ConnectOptions, "lease">,
): Promise<Transport> => ("commit" in connected ? (await import("./lift.ts")).lift(connected, options) : connected)
