/** The boards of the acceptance scenarios: every transport that ships, with a board of its own for each test. */
import { afterAll, beforeAll, describe } from "vitest"
import { generateId } from "../../runtime/id.ts"
import { type NatsServer, startNats } from "../support/servers/nats.ts"
import { type TemporaryFolder, temporaryFolder } from "../support/servers/process.ts"

/** URL of a board that no other test uses. All connections have the same `lease`, in seconds. */
export type NewBoard = (options?: { readonly lease?: number }) => string

/** Defines the same scenarios on memory, sqlite and nats. Real servers, one for all tests of a file. */
export const onEveryBoard = (define: (newBoard: NewBoard, transport: "memory" | "sqlite" | "nats") => void): void => {
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
