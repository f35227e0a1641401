/** The transport over PostgreSQL: queues, records and the store are tables, news are notifications. */
import { checkOptions } from "../../runtime/transport/checks.ts"
import type { Plugin } from "../../runtime/transport/driver.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import { capabilities, PostgresDriver } from "./driver.ts"
import type { Library } from "./link.ts"

export { capabilities }

export const plugin: Plugin = {
  schemes: ["postgres", "postgresql"],
  connect: async (url, options) => {
    checkOptions(options)
    // `?sslmode=` and what else the library reads in a URL is there; ours it passes over.
    const config = { connectionString: url.href, application_name: options.name, keepAlive: true }
    return new PostgresDriver(await library(), config, options).start()
  },
}

export default plugin

/** The client library, which an application that uses this transport installs. */
export const library = async (load: () => Promise<Library> = () => import("pg")): Promise<Library> => {
  try {
    return await load()
  } catch (cause) {
    throw new TransportError("unsupported", "postgres: the package pg is missing: npm install pg", { cause })
  }
}
