/**
 * The embedded transport: one SQLite file, used by several processes at once, with nothing to install. A task that was
 * accepted is on the disk. Its URLs are `sqlite:jobs.db`, `sqlite:/var/lib/app/jobs.db?sync=normal`; an application may
 * also pass a `DatabaseSync` that it holds.
 */
import { resolve } from "node:path"
import type { DatabaseSync } from "node:sqlite"
import type { Driver, Plugin } from "../../runtime/transport/driver.ts"
import type { ConnectOptions } from "../../runtime/transport/mod.ts"
import { sqlite } from "./database/library.ts"
import { checkSqliteOptions, openFile, openHandle, readLocation } from "./database/open.ts"
import { driverOver } from "./driver.ts"
import { openReopening } from "./reopening.ts"

const connect = async (url: URL, options: ConnectOptions): Promise<Driver> => {
  checkSqliteOptions(options)
  const { namespace, timeout, lease, reconnectDelay } = options
  const { path, sync } = readLocation(url)
  // The path is made absolute now, because the working directory may have changed when the file is opened again.
  const location = { path: resolve(path), sync }
  return openReopening(
    async (onGone) => driverOver(await openFile(location, namespace, timeout), lease, onGone),
    reconnectDelay,
  )
}

const adopt = async (handle: DatabaseSync, options: ConnectOptions): Promise<Driver> => {
  checkSqliteOptions(options)
  const opened = await openHandle(handle, options.namespace, options.timeout)
  return driverOver(opened, options.lease)
}

const isHandle = (client: unknown): client is DatabaseSync =>
  sqlite !== undefined && client instanceof sqlite.DatabaseSync

export const plugin: Plugin = {
  schemes: ["sqlite"],
  connect,
  adopt: (client, options) => (isHandle(client) ? adopt(client, options) : undefined),
}

export default plugin
