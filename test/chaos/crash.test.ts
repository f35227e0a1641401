/** What is promised through the death of processes, on the transports that `test/e2e/crash.test.ts` leaves out. */
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
