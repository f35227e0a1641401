/** Commands about many jobs that end before they are done say how far they came, and how to go on. */
import { CommandFailed, EXIT, exitCodeOf, lineOf } from "./failure.ts"

const SIGNALS = ["SIGINT", "SIGTERM"] as const

/** Calls a function with a signal that fires with SIGINT and SIGTERM. */
export const interruptible = async <A>(work: (signal: AbortSignal) => Promise<A>): Promise<A> => {
  const stop = new AbortController()
  const end = () => stop.abort()
  for (const signal of SIGNALS) process.once(signal, end)
  try {
    return await work(stop.signal)
  } finally {
    for (const signal of SIGNALS) process.off(signal, end)
  }
}

/**
 * The failure of a command that is not done: it came as far as `far` says, and the same command goes on. Where an error has
 * ended it, its line comes first, and the exit code is that of the error.
 */
export const notDone = (far: string, cause?: unknown): CommandFailed => {
  const line = `${far}; to continue, run the same command again`
  if (cause === undefined) return new CommandFailed(EXIT.partial, line)
  return new CommandFailed(exitCodeOf(cause), `${lineOf(cause)} (${line})`, { cause })
}
