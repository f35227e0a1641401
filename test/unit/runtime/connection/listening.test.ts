/** A process that only listens stays alive, and uses no CPU. */
import { fileURLToPath } from "node:url"
import { expect, test } from "vitest"
import { isRunning, spawnScript, temporaryFolder } from "../../../support/servers/process.ts"

const WINDOW_MS = 1_000

test.each(["listen", "events"])(
  "%s on a board in a file keeps the process alive, at no cost, until the client is closed",
  async (what) => {
    using folder = temporaryFolder()
    await using listener = spawnScript(fileURLToPath(new URL("listener.ts", import.meta.url)), [
      `sqlite:${folder.path}/board.db`,
      what,
    ])
    await listener.waitForLine(/^ready/)
    const began = performance.now()
    await new Promise((resolve) => setTimeout(resolve, WINDOW_MS))
    expect(isRunning(listener.pid)).toBe(true)
    listener.kill("SIGUSR2")
    const [, used = ""] = await listener.waitForLine(/^used (\d+) ms/)
    // A spinning event loop would use a whole core, or the part of it that other processes leave.
    expect(Number(used) / (performance.now() - began)).toBeLessThan(0.2)
    listener.kill("SIGTERM")
    expect(await listener.exited).toEqual({ code: 0, signal: null })
  },
)
