/** The kinds of plugins that the runtime can connect: of a driver, of only queues, and of a whole transport (in tests). */
import type { ConnectOptions, Driver, Plugin, QueueDriver, QueuePlugin } from "../driver.ts"
import { TransportError } from "../mod.ts"
import type { Transport } from "./transport.ts"

/** A plugin that returns a transport instead of a driver. Tests use it to put faults between the runtime and a transport. */
export interface LiftedPlugin extends Pick<Plugin, "schemes"> {
  connect(url: URL, options: ConnectOptions): Promise<Transport>
  adopt?(client: unknown, options: ConnectOptions): Promise<Transport> | undefined
}

export type AnyPlugin = Plugin | QueuePlugin | LiftedPlugin

/**
 * Makes a transport of a driver. The code that does it is loaded when the first driver connects. `records` connects the transport that
 * keeps the records of a driver with only queues.
 */
export const asTransport = async (
  connected: Transport | Driver | QueueDriver,
  options: Pick<ConnectOptions, "lease">,
  records?: (queue: QueueDriver) => Promise<Transport | Driver | QueueDriver>,
): Promise<Transport> => {
  if ("jobs" in connected) return connected
  const { withJobs } = await import("./with-jobs.ts")
  if ("read" in connected) return withJobs(connected, options)
  const opened: Array<Pick<Driver, "close">> = [connected]
  try {
    const recordStore = await records?.(connected)
    if (recordStore !== undefined) opened.push(recordStore)
    if (recordStore === undefined || !("read" in recordStore)) {
      const why = `${connected.name} does not store records: it needs a second transport that does`
      throw new TransportError("unsupported", why)
    }
    const { split } = await import("./split.ts")
    return withJobs(await split(connected, recordStore), options)
  } catch (cause) {
    await Promise.allSettled(opened.map((each) => each.close()))
    throw cause
  }
}
