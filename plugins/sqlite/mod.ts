/**
 * The embedded transport: one SQLite file, used by several processes at once, with nothing to install. What it has
 * accepted is on the disk. `sqlite:jobs.db`, `sqlite:/var/lib/app/jobs.db?sync=normal`, or a `DatabaseSync` that the
 * application holds.
 */
import { DatabaseSync } from "node:sqlite"
import type { ConnectOptions, Plugin, Transport } from "../../runtime/transport.ts"
import { checkOptions, locate } from "./location.ts"
import { openFile, openHandle } from "./open.ts"
import { transportOver } from "./transport.ts"

const connect = async (url: URL, options: ConnectOptions): Promise<Transport> => {
  checkOptions(options)
  const opened = await openFile(locate(url), options.namespace, options.timeout)
  return transportOver(opened, options.lease)
}

const adopt = async (handle: DatabaseSync, options: ConnectOptions): Promise<Transport> => {
  checkOptions(options)
  const opened = await openHandle(handle, options.namespace, options.timeout)
  return transportOver(opened, options.lease)
}

export const plugin: Plugin = {
  schemes: ["sqlite"],
  connect,
  adopt: (client, options) => (client instanceof DatabaseSync ? adopt(client, options) : undefined),
}

export default plugin
