/**
 * Starts this program again as a worker process under a supervisor. The two exchange messages, and a worker process stops
 * when its supervisor is gone.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { extname } from "node:path"
import { fileURLToPath } from "node:url"
import { runArguments } from "./runtimes.js"

/** The file of this program: TypeScript in the repository, JavaScript in the package. */
const MAIN = fileURLToPath(new URL(`./main${extname(import.meta.url)}`, import.meta.url))

/** Hidden flag of a worker process. */
export const WORK_FLAG = "--work-process"

/** Starts this command line, with more arguments, as a worker process on the same terminal. */
export const startWorkProcess = (more: ReadonlyArray<string> = []): ChildProcess => {
  const runtime = "bun" in process.versions ? "bun" : "deno"
  const args = [...runArguments(runtime, MAIN), ...process.argv.slice(2), ...more, WORK_FLAG]
  return spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] })
}

const READY = "ready"

/** Tells the supervisor that this process is ready. */
export const sendReady = (): void => {
  process.send?.(READY)
}

/** Calls back when a worker process is ready. */
export const onReady = (child: ChildProcess, ready: () => void): void => {
  child.on("message", (message) => {
    if (message === READY) ready()
  })
}

const ENDING = "ending"
const ACKNOWLEDGED = "noted"

/** Longest wait for the supervisor to acknowledge the end of this process, in milliseconds. */
const ACKNOWLEDGED_MS = 1_000

/**
 * Announces a normal end to the supervisor, which treats an end without it as a crash. Resolves when the supervisor has
 * acknowledged it, since otherwise the exit could be seen before the message.
 */
export const sendEnding = (): Promise<void> => {
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
      if (message === ACKNOWLEDGED) done()
    }
    const timer = setTimeout(done, ACKNOWLEDGED_MS)
    process.on("message", hear)
    process.once("disconnect", done)
    process.send(ENDING, (error: Error | null) => {
      if (error !== null) done()
    })
  })

/** Calls back when a worker process announces a normal end. */
export const onEnding = (child: ChildProcess, ending: () => void): void => {
  child.on("message", (message) => {
    if (message !== ENDING) return
    ending()
    // The process may have exited already.
    child.send(ACKNOWLEDGED, () => undefined)
  })
}

/** Calls back when the supervisor of this process is gone. */
export const onOrphaned = (stop: () => void): void => {
  process.once("disconnect", stop)
}

/** Sends a signal, also a second one: Deno's `child.kill` does nothing after the first. */
export const passSignal = (child: ChildProcess, signal: NodeJS.Signals): void => {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  try {
    process.kill(child.pid, signal)
  } catch {
    // The process has ended in the meantime.
  }
}
