/**
 * The other end of test/bench/harness/program.ts, and what all programs have in common. Plain JavaScript, because the
 * peers' programs run on Node as well.
 */

/** 256 bytes, together with a number beside it. */
export const PAYLOAD = "x".repeat(232)

/** Says that the program is prepared, and waits for the word to begin. @returns {Promise<void>} */
export const begin = () =>
  new Promise((resolve) => {
    process.stdin.once("end", () => {
      inputHasEnded = true
    })
    process.stdin.once("data", () => resolve())
    process.stdout.write("READY\n")
  })

let inputHasEnded = false

/**
 * Prints the figures. The process stays until its input ends, so that its processor time can be read.
 *
 * @param {Readonly<Record<string, number>>} figures
 */
export const report = (figures) => {
  process.stdout.write(`${JSON.stringify(figures)}\n`)
  if (inputHasEnded) process.exit(0)
  process.stdin.once("end", () => process.exit(0))
}

/** Memory of this process. */
export const rssMiB = () => process.memoryUsage().rss / 2 ** 20

/** @param {number} ms @returns {Promise<void>} */
export const nap = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** Numbers at some shares of the sorted list. @param {ReadonlyArray<number>} values */
export const quantiles = (values) => {
  const sorted = values.toSorted((a, b) => a - b)
  /** @param {number} share */
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99), max: at(1) }
}

/**
 * Submits in batches of 1,000, two of which are under way at a time, as a producer that cares for speed does it.
 *
 * @param {number} count
 * @param {(from: number, size: number) => Promise<void>} submit
 */
export const inBatches = async (count, submit) => {
  let next = 0
  const lane = async () => {
    while (next < count) {
      const from = next
      const size = Math.min(1_000, count - from)
      next += size
      await submit(from, size)
    }
  }
  await Promise.all([lane(), lane()])
}

/** Counts up to goals that are set one after the other. */
export const counter = () => {
  let count = 0
  let goal = 0
  /** @type {(at: number) => void} */
  let reached = () => {}
  return {
    add: () => {
      if (++count === goal) reached(performance.now())
    },
    /** Resolves with the time when so many more have been counted. @param {number} more @returns {Promise<number>} */
    reach: (more) =>
      new Promise((resolve) => {
        goal = count + more
        reached = resolve
      }),
  }
}

/** How often a worker says how far it is: half of it is how late the end is seen, which is in no figure. */
const PROGRESS_MS = 50

/** Counts what a worker has settled, and prints it while it grows; times are of the clock that all processes share. */
export const progress = () => {
  let settled = 0
  let shown = -1
  let first = 0
  let last = 0
  const show = () => {
    if (settled === shown) return
    shown = settled
    report({ settled, first, last, rssMiB: rssMiB() })
  }
  setInterval(show, PROGRESS_MS)
  return {
    add: () => {
      last = Date.now()
      if (first === 0) first = last
      settled++
    },
    show,
  }
}
