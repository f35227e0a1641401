/** The transport over PostgreSQL. Queues, records and the store are tables; news are notifications. */
import { checkUrlOptions } from "../../runtime/transport/checks.ts"
import type { Plugin } from "../../runtime/transport/driver.ts"
import { missingLibrary } from "../../runtime/transport/mod.ts"
import { capabilities, PostgresDriver } from "./driver.ts"

export { capabilities }

/** Options that the library reads from the URL. It ignores every other one, also a misspelt `sslmode`. */
const LIBRARY = [
  ...["ssl", "sslmode", "sslcert", "sslkey", "sslrootcert", "sslnegotiation", "uselibpqcompat"],
  ...["host", "port", "user", "password", "db", "encoding", "client_encoding", "options", "replication", "binary"],
  ...["application_name", "fallback_application_name", "connect_timeout", "statement_timeout", "lock_timeout"],
  ...["idle_in_transaction_session_timeout", "query_timeout"],
]

export const plugin: Plugin = {
  schemes: ["postgres", "postgresql"],
  connect: async (url, options) => {
    checkUrlOptions(url, LIBRARY)
    const library = await loadLibrary()
    // The library reads its own options from the URL (`?sslmode=`) and ignores those of Callboard.
    const config = { connectionString: url.href, application_name: options.name }
    return new PostgresDriver(library, config, options).start()
  },
}

const loadLibrary = async () => {
  try {
    return await import("pg")
  } catch (cause) {
    throw missingLibrary("postgres", "pg", cause)
  }
}

export default plugin
