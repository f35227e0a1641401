/** Connections to nats with everything that the runtime makes of a driver. */
import { plugin } from "../../../../plugins/nats/mod.ts"
import { asTransport } from "../../../../runtime/transport/job-store/plugin.ts"
import type { Transport } from "../../../../runtime/transport/job-store/transport.ts"
import type { ConnectOptions } from "../../../../runtime/transport/mod.ts"

export const connectNats = async (url: string | URL, options: ConnectOptions): Promise<Transport> =>
  asTransport(await plugin.connect(new URL(url), options), options)
