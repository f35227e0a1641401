/** Messages of a process to the one that watches over it: the launcher, or the supervisor of a pool. */
import { extname } from "node:path"
import { fileURLToPath } from "node:url"
import { currentRuntime } from "../platform/runtime.js"
import { ACKNOWLEDGED, type ChildProcess, ENDING, READY, RESTART, startProcess } from "./child.js"
import { CommandFailed, EXIT } from "./failure.ts"

/** The file of this program: TypeScript in the repository, JavaScript in the package. */
const MAIN = fileURLToPath(new URL(`./main${extname(import.meta.url)}`, import.meta.url))

/** Hidden flag of a worker process of a pool. */
export const WORK_FLAG = "--work-process"

/** Starts this command line, with more arguments, as a worker process of a pool. */
export const startWorkProcess = (more: ReadonlyArray<string>): ChildProcess => {
  const args = [...process.argv.slice(2), ...more, WORK_FLAG]
  return startProcess({ name: currentRuntime(), path: process.execPath }, MAIN, args, { isWatched: true })
}

/**
 * Sends a message to the watcher, if there is one. On Deno a message to a watcher that is gone would end this process.
 */
export const sendToWatcher = (message: unknown): void => {
  if (process.connected) process.send?.(message, () => undefined)
}

/** Asks to be started again, from now on, when this process crashes. */
export const askForRestarts = (): void => sendToWatcher(RESTART)

/** Announces that this process is ready. */
export const sendReady = (): void => sendToWatcher(READY)

/** Longest wait until the end of this process is acknowledged, in milliseconds. */
const ACKNOWLEDGED_MS = 1_000

/**
 * Runs work and then announces the end of this process, since an end without that is a crash. A worker that is stuck
 * announces nothing: it is to be started again.
 */
export const announcingEnd = async <A>(work: () => Promise<A>): Promise<A> => {
  let isStuck = false
  try {
    return await work()
  } catch (cause) {
    isStuck = cause instanceof CommandFailed && cause.exitCode === EXIT.stuck
    throw cause
  } finally {
    if (!isStuck) {
      announced ??= announceEnd()
      await announced
    }
  }
}

let announced: Promise<void> | undefined

const announceEnd = (): Promise<void> =>
  new Promise((resolve) => {
    if (process.send === undefined || !process.connected) return resolve()
    const done = () => {
      clearTimeout(timer)
      process.off("message", hear)
      process.off("disconnect", done)
      resolve()
    }
    const hear = (message: unknown) => {
      if (message === ACKNOWLEDGED) done()
    }
    const timer = setTimeout(done, ACKNOWLEDGED_MS)
    process.on("message", hear)
    process.once("disconnect", done)
    process.send(ENDING, (error: Error | null) => {
      if (error !== null) done()
    })
  })

/** Stops this process as a first signal does when its watcher is gone, since nothing else would stop it then. */
export const stopWithWatcher = (): void => {
  const stop = () => process.kill(process.pid, "SIGTERM")
  if (process.send === undefined) return
  if (process.connected) process.once("disconnect", stop)
  else stop()
}
