/** Connections to nats with everything that the runtime makes of a driver. */
import { plugin } from "../../../../plugins/nats/mod.ts"
import { asTransport } from "../../../../runtime/transport/lift/plugin.ts"
import type { Transport } from "../../../../runtime/transport/lift/transport.ts"
import type { ConnectOptions } from "../../../../runtime/transport/mod.ts"

export const connectNats = async (url: string | URL, options: ConnectOptions): Promise<Transport> =>
  asTransport(await plugin.connect(new URL(url), options), options)
