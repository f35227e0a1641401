/** Notices uncaught errors during cases that break connections: such an error would end the process of a worker. */
import process from "node:process"
import { BrokenPromise } from "../check.ts"

const running = new Set<Array<unknown>>()
let restore = (): void => undefined

/**
 * Replaces all listeners for a while: the case reports these errors, and the test runner must not fail for them as
 * well.
 */
const takeOver = (): void => {
  const note = (error: unknown): void => {
    for (const errors of running) errors.push(error)
  }
  const exceptions = process.listeners("uncaughtException")
  const rejections = process.listeners("unhandledRejection")
  process.removeAllListeners("uncaughtException").on("uncaughtException", note)
  process.removeAllListeners("unhandledRejection").on("unhandledRejection", note)
  restore = () => {
    process.removeListener("uncaughtException", note).removeListener("unhandledRejection", note)
    for (const listener of exceptions) process.on("uncaughtException", listener)
    for (const listener of rejections) process.on("unhandledRejection", listener)
  }
}

/** Runs a function, and fails if an error was not caught meanwhile. */
export const withoutUncaught = async (run: () => Promise<void>): Promise<void> => {
  const errors: Array<unknown> = []
  if (running.size === 0) takeOver()
  running.add(errors)
  try {
    await run()
    // The engine reports an unhandled rejection after the current turn of the event loop.
    await new Promise((resolve) => setTimeout(resolve, 20))
  } finally {
    running.delete(errors)
    if (running.size === 0) restore()
  }
  if (errors.length > 0) throw new BrokenPromise(`an error was caught by nobody: ${String(errors[0])}`)
}
