/** How the command line starts and follows a process. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { constants } from "node:os"
import { expect, test } from "vitest"
import { followChild } from "../../../../runtime/cli/runtimes.js"

test("signals are listened to before the process is started, and no longer once it is not followed", async () => {
  const counted = () => process.listenerCount("SIGINT")
  const before = counted()
  let atStart = before
  const following = followChild(
    () => {
      atStart = counted()
      return spawn(process.execPath, ["--version"], { stdio: "ignore" })
    },
    constants.signals,
    (error) => {
      throw error
    },
  )
  const ended = once(following.child, "exit")
  following.stop()
  expect([atStart, counted()]).toEqual([before + 1, before])
  await ended
})
