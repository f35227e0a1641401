/** The boards of the acceptance scenarios: every transport that ships, with a board of its own for each test. */
import { afterAll, beforeAll, describe } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { type NatsServer, startNats } from "../support/servers/nats.ts"
import { type TemporaryFolder, temporaryFolder } from "../support/servers/process.ts"
import { type RedisServer, startRedis } from "../support/servers/redis.ts"

/** URL of a board that no other test uses. All connections have the same `lease`, in seconds. */
export type NewBoard = (options?: { readonly lease?: number }) => string

export type ScenarioTransport = "memory" | "sqlite" | "nats" | "redis"

/**
 * Defines the same scenarios on memory, sqlite and nats; in a run that shares a broker with Celery on redis alone. Real
 * servers, one for all tests of a file.
 */
export const onEveryBoard = (define: (newBoard: NewBoard, transport: ScenarioTransport) => void): void => {
  if (process.env["CALLBOARD_TEST_BOARDS"] === "redis") {
    describe("on redis", () => {
      let server: RedisServer
      beforeAll(async () => {
        server = await startRedis()
      })
      afterAll(() => server.stop())
      define(({ lease = 30 } = {}) => `${server.url}?lease=${lease}&ns=${generateId()}`, "redis")
    })
    return
  }

  describe("on memory", () => {
    define(({ lease = 30 } = {}) => `memory://${generateId()}?lease=${lease}`, "memory")
  })

  describe("on sqlite", () => {
    let folder: TemporaryFolder
    beforeAll(() => {
      folder = temporaryFolder()
    })
    afterAll(() => folder.remove())
    define(({ lease = 30 } = {}) => `sqlite:${folder.path}/${generateId()}.db?lease=${lease}`, "sqlite")
  })

  describe("on nats", () => {
    let server: NatsServer
    beforeAll(async () => {
      server = await startNats()
    })
    afterAll(() => server.stop())
    define(({ lease = 30 } = {}) => `${server.url}?lease=${lease}&ns=${generateId()}`, "nats")
  })
}
