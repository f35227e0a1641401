/**
 * Watches over a worker: starts it again when it was killed. A handler that blocks its thread beyond its time limit can
 * be ended in no other way, and neither can one that takes all the memory.
 */
import type { ChildProcess } from "node:child_process"
import { makeLog } from "../log.ts"
import { onSignals } from "../signals.ts"
import { passSignal, startWorkProcess } from "./work-process.ts"

const FIRST_WAIT_MS = 1_000
const LONGEST_WAIT_MS = 30_000

/** Who has lived this long did not die of how it starts. */
const STABLE_MS = 60_000

/** Runs the worker until it ends by itself or a signal stops it; resolves with its exit code. */
export const superviseWorker = (note: (text: string) => void): Promise<number> =>
  new Promise((resolve) => {
    let child: ChildProcess | undefined
    let timer: ReturnType<typeof setTimeout> | undefined
    let stopping = false
    let waitMs = FIRST_WAIT_MS
    // Each signal goes on to the worker, which counts them, and says what it does.
    const pass = () => {
      stopping = true
      clearTimeout(timer)
      if (child === undefined) resolve(0)
      else passSignal(child, "SIGTERM")
    }
    onSignals({ soft: pass, hurry: pass, log: makeLog({ level: "none" }) })
    // A third signal ends this process at once, and nothing may outlive it.
    process.once("exit", () => {
      if (child !== undefined) passSignal(child, "SIGKILL")
    })
    const start = () => {
      const startedAt = performance.now()
      child = startWorkProcess()
      child.on("error", (error) => {
        note(`the worker cannot be started: ${error.message}`)
        resolve(1)
      })
      child.on("exit", (code, signal) => {
        child = undefined
        if (code !== null || stopping) return resolve(code ?? 0)
        if (performance.now() - startedAt > STABLE_MS) waitMs = FIRST_WAIT_MS
        note(`the worker was ended by ${signal}; starting it again in ${waitMs / 1_000} s`)
        timer = setTimeout(start, waitMs)
        waitMs = Math.min(LONGEST_WAIT_MS, waitMs * 2)
      })
    }
    start()
  })
