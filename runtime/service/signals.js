/**
 * Counts signals: the first stops softly, the second hands running jobs back now, the third ends the process.
 *
 * Plain JavaScript, because the launcher counts them too, on Node.
 */

/** A terminal that is closed sends SIGHUP. */
const SIGNALS = /** @type {const} */ (["SIGINT", "SIGTERM", "SIGQUIT", "SIGHUP"])

/** `bun run` delivers Ctrl+C twice within a millisecond: signals within this time count as one. */
const SAME_MS = 1_000

/**
 * @typedef {object} SignalSteps
 * @property {(signal: NodeJS.Signals) => void} soft
 * @property {(signal: NodeJS.Signals) => void} hurry
 */

/**
 * Starts to listen; the returned function stops it.
 *
 * @param {SignalSteps} steps
 * @returns {() => void}
 */
export function onSignals({ soft, hurry }) {
  let count = 0
  let lastAt = Number.NEGATIVE_INFINITY
  /** @param {NodeJS.Signals} signal */
  const heard = (signal) => {
    const now = performance.now()
    if (now - lastAt < SAME_MS) return
    lastAt = now
    count++
    if (count === 1) soft(signal)
    else if (count === 2) hurry(signal)
    else process.exit(1)
  }
  for (const signal of SIGNALS) process.on(signal, heard)
  return () => {
    for (const signal of SIGNALS) process.off(signal, heard)
  }
}
