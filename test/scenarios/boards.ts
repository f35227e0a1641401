/** The boards of the acceptance scenarios: every transport that ships, with a board of its own for each test. */
import { afterAll, beforeAll, describe } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { type NatsServer, startNats } from "../support/servers/nats.ts"
import { type TemporaryFolder, temporaryFolder } from "../support/servers/process.ts"
import { type RedisServer, startRedis } from "../support/servers/redis.ts"

/** URL of a board that no other test uses. All connections have the same `lease`, in seconds. */
export type NewBoard = (options?: { readonly lease?: number }) => string

export type ScenarioTransport = "memory" | "sqlite" | "nats" | "redis"

/** Opens boards of a transport. It is called within a `describe`, so that it may start a server for the tests in it. */
const openers: Readonly<Record<ScenarioTransport, () => NewBoard>> = {
  memory:
    () =>
    ({ lease = 30 } = {}) =>
      `memory://${generateId()}?lease=${lease}`,
  sqlite: () => {
    let folder: TemporaryFolder
    beforeAll(() => {
      folder = temporaryFolder()
    })
    afterAll(() => folder.remove())
    return ({ lease = 30 } = {}) => `sqlite:${folder.path}/${generateId()}.db?lease=${lease}`
  },
  nats: () => onServer(startNats),
  redis: () => onServer(startRedis),
}

const onServer = (startServer: () => Promise<NatsServer | RedisServer>): NewBoard => {
  let server: NatsServer | RedisServer
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(() => server.stop())
  return ({ lease = 30 } = {}) => `${server.url}?lease=${lease}&ns=${generateId()}`
}

/**
 * Defines the same scenarios on the transports that `CALLBOARD_TEST_BOARDS` names: memory and sqlite where it is not set.
 * Real servers, one for all tests of a file.
 */
export const onEveryBoard = (define: (newBoard: NewBoard, transport: ScenarioTransport) => void): void => {
  const wanted = (process.env["CALLBOARD_TEST_BOARDS"] ?? "memory,sqlite").split(",")
  for (const transport of ["memory", "sqlite", "nats", "redis"] as const) {
    if (wanted.includes(transport)) describe(`on ${transport}`, () => define(openers[transport](), transport))
  }
}
