/** What a plugin connects to, as client and worker use it. */
import type { ConnectOptions, Driver, Plugin } from "../driver.ts"
import type { Transport } from "./transport.ts"

/** A plugin whose `connect` has lifted its driver already: how tests of the runtime put faults between the two. */
export interface LiftedPlugin extends Pick<Plugin, "schemes"> {
  connect(url: URL, options: ConnectOptions): Promise<Transport>
  adopt?(client: unknown, options: ConnectOptions): Promise<Transport> | undefined
}

export type AnyPlugin = Plugin | LiftedPlugin

/** What a driver needs is loaded with the first driver. */
export const asTransport = async (
  connected: Transport | Driver,
  options: Pick<ConnectOptions, "lease">,
): Promise<Transport> => ("commit" in connected ? (await import("./lift.ts")).lift(connected, options) : connected)
