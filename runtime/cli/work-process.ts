/**
 * A process of our own that does the work, under one that watches over it. It tells and is told by messages, and stops
 * when nobody watches any more.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { extname } from "node:path"
import { fileURLToPath } from "node:url"
import { runArguments } from "./runtimes.js"

/** This very program: TypeScript in the repository, JavaScript in the package. */
const MAIN = fileURLToPath(new URL(`./main${extname(import.meta.url)}`, import.meta.url))

/** Says to a command that it is the process that works. Not for people. */
export const WORK_FLAG = "--work-process"

/** Starts this command line once more, with some arguments more, as the process that works, on the same terminal. */
export const startWorkProcess = (more: ReadonlyArray<string> = []): ChildProcess => {
  const runtime = "bun" in process.versions ? "bun" : "deno"
  const args = [...runArguments(runtime, MAIN), ...process.argv.slice(2), ...more, WORK_FLAG]
  return spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] })
}

const READY = "ready"

/** Tells the process that watches over this one that it works. */
export const tellReady = (): void => {
  process.send?.(READY)
}

/** Calls back when a process says that it works. */
export const onToldReady = (child: ChildProcess, ready: () => void): void => {
  child.on("message", (message) => {
    if (message === READY) ready()
  })
}

const ENDING = "ending"
const NOTED = "noted"

/** Longest wait for the watcher to note that this process ends. */
const NOTED_MS = 1_000

/**
 * Tells the process that watches over this one that it ends by its own decision: one that is gone without having said so
 * died of what it ran. Resolves when that was noted, since the end itself may be seen before any message.
 */
export const tellEnding = (): Promise<void> => {
  told ??= ending()
  return told
}

let told: Promise<void> | undefined

const ending = (): Promise<void> =>
  new Promise((resolve) => {
    if (process.send === undefined || !process.connected) return resolve()
    const done = () => {
      clearTimeout(timer)
      process.off("message", hear)
      process.off("disconnect", done)
      resolve()
    }
    const hear = (message: unknown) => {
      if (message === NOTED) done()
    }
    const timer = setTimeout(done, NOTED_MS)
    process.on("message", hear)
    process.once("disconnect", done)
    process.send(ENDING, (error: Error | null) => {
      if (error !== null) done()
    })
  })

/** Calls back when a process says that it ends by its own decision. */
export const onToldEnding = (child: ChildProcess, ending: () => void): void => {
  child.on("message", (message) => {
    if (message !== ENDING) return
    ending()
    // It may be gone by now.
    child.send(NOTED, () => undefined)
  })
}

/** Calls back when the process that watches over this one is gone. */
export const onOrphaned = (stop: () => void): void => {
  process.once("disconnect", stop)
}

/** Sends a signal, also a second one: Deno's `child.kill` does nothing after the first. */
export const passSignal = (child: ChildProcess, signal: NodeJS.Signals): void => {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  try {
    process.kill(child.pid, signal)
  } catch {
    // It has ended just now.
  }
}
