/** The transport over PostgreSQL. Queues, records and the store are tables; news are notifications. */
import type { Plugin } from "../../runtime/transport/driver.ts"
import { clientLibrary } from "../../runtime/transport/mod.ts"
import { capabilities, PostgresDriver } from "./driver.ts"

export { capabilities }

export const plugin: Plugin = {
  schemes: ["postgres", "postgresql"],
  connect: async (url, options) => {
    const library = await clientLibrary("postgres", "pg", () => import("pg"))
    // The library reads its own options from the URL (`?sslmode=`) and ignores those of Callboard.
    const config = { connectionString: url.href, application_name: options.name }
    return new PostgresDriver(library, config, options).start()
  },
}

export default plugin
