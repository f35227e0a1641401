/** Handles signals: the first stops softly, the second hands running jobs back now, the third ends the process. */
import type { Log } from "../log/log.ts"

const SIGNALS = ["SIGINT", "SIGTERM", "SIGQUIT"] as const

/** `bun run` delivers Ctrl+C twice within a millisecond: signals within this time count as one. */
const SAME_MS = 1_000

export interface SignalSteps {
  readonly soft: () => void
  readonly hurry: () => void
  readonly log: Log
}

/** Starts to listen; the returned function stops it. */
export const onSignals = (steps: SignalSteps): (() => void) => {
  let count = 0
  let lastAt = Number.NEGATIVE_INFINITY
  const heard = (signal: NodeJS.Signals) => {
    const now = performance.now()
    if (now - lastAt < SAME_MS) return
    lastAt = now
    count++
    if (count === 1) {
      steps.log.info(`${signal}: stopping. Running jobs may finish; signal again to hand them back now`)
      steps.soft()
    } else if (count === 2) {
      steps.log.warn(`${signal}: handing back now`)
      steps.hurry()
    } else process.exit(1)
  }
  for (const signal of SIGNALS) process.on(signal, heard)
  return () => {
    for (const signal of SIGNALS) process.off(signal, heard)
  }
}
