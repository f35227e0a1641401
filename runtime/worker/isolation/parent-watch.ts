/**
 * Ends a process whose parent has died, even while a handler blocks its main thread. Without a worker no time limit would end
 * a handler that loops forever.
 */
import { Worker as Thread } from "node:worker_threads"

/** Milliseconds between two looks. */
const EVERY = 500

/** The program of the thread is text, because a bundle has no file for it. It kills the process with its group, which has the same id. */
const PROGRAM = `
const { parentPort, workerData } = require("node:worker_threads")
const kill = (target) => {
  try {
    process.kill(target, "SIGKILL")
  } catch {}
}
setInterval(() => {
  if (process.ppid === workerData.parent) return
  if (process.platform !== "win32") kill(-process.pid)
  kill(process.pid)
}, ${EVERY})
parentPort.postMessage("watching")
`

/** Resolves once the thread is watching, or has failed, which is reported. */
export const watchParent = (parent: number, onFailure: (cause: unknown) => void): Promise<void> =>
  new Promise((resolve) => {
    const thread = new Thread(PROGRAM, { eval: true, workerData: { parent } })
    thread.unref()
    thread.once("message", () => resolve())
    thread.once("error", (cause) => {
      onFailure(cause)
      resolve()
    })
  })
