/** Promises that hold when processes die, on the transports that `test/e2e/crash.test.ts` does not use. */
import { afterAll, beforeAll } from "vitest"
import { postgresBoards, sharedBoards } from "../e2e/boards.ts"
import { registerCrashes } from "../e2e/crash-cases.ts"
import { type PostgresServer, startPostgres } from "../support/servers/postgres.ts"

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server?.stop())

registerCrashes([...sharedBoards.slice(1), postgresBoards(() => server)])
