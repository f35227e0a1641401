/** Plugins of both contracts, until all plugins that ship are drivers. */
import type { Driver, DriverPlugin } from "../driver.ts"
import type { ConnectOptions, Plugin, Transport } from "../mod.ts"
import { lift } from "./lift.ts"

/** Connects to a driver, or to a transport that is whole by itself. */
export type AnyPlugin = Plugin | DriverPlugin

/** What a plugin connected to, as client and worker use it. */
export const asTransport = (connected: Transport | Driver, options: Pick<ConnectOptions, "lease">): Transport =>
  "commit" in connected ? lift(connected, options) : connected
