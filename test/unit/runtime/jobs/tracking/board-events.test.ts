import { describe, expect, test, vi } from "vitest"
import { followBoard } from "../../../../../runtime/jobs/tracking/board-events.ts"
import { start, watched } from "./board.ts"

describe("following the board", () => {
  test("ends its watch when its reader leaves, though the signal never fires", async () => {
    const client = await start()
    const { connection, watches } = watched(client.connection)
    const { signal } = new AbortController()
    const removed = vi.spyOn(signal, "removeEventListener")
    setTimeout(() => void client.submit("echo"), 10)
    for await (const { job } of followBoard(connection, signal)) {
      expect(job.state).toBe("queued")
      break
    }
    expect(watches.size).toBe(0)
    expect(removed).toHaveBeenCalled()
  })

  test("ends with the signal, also with one that has fired already", async () => {
    const { connection } = await start()
    expect(await followBoard(connection, AbortSignal.abort()).next()).toMatchObject({ done: true })
    expect(await followBoard(connection, AbortSignal.timeout(10)).next()).toMatchObject({ done: true })
  })
})
