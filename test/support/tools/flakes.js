/**
 * Runs the files in which something failed once more, each alone: what passes then was a flake, and does not fail the run. What
 * may be a race must pass three times more, since one that shows seldom is a fault all the same.
 */

/** More files than this do not fail by chance. */
const MOST_FILES = 5
const MORE_RUNS_OF_RACES = 3

/** @typedef {{ passed: number, failures: string[], doubtful: readonly unknown[] }} Run */

/** @typedef {import("./results.js").Doubtful & { again: () => Promise<Run> }} Repeatable */

/** @param {Run} run */
const isGood = ({ failures, doubtful }) => failures.length + doubtful.length === 0

/**
 * @param {readonly Repeatable[]} files
 * @param {readonly string[]} races how the paths of tests end that may show a race
 * @param {number} others how much else failed
 * @returns {Promise<{ passed: number, failures: string[], flakes: string[] }>} each file with the result of its last run if it was
 *   a flake, otherwise of its first
 */
export async function runAgain(files, races, others = 0) {
  let passed = 0
  /** @type {string[]} */
  const failures = []
  /** @type {string[]} */
  const flakes = []
  for (const { again, ...first } of files) {
    const runs = races.some((path) => first.file.endsWith(path)) ? 1 + MORE_RUNS_OF_RACES : 1
    const last = files.length + others > MOST_FILES ? undefined : await lastOf(runs, again)
    if (last === undefined) {
      passed += first.passed
      failures.push(...first.failures)
    } else {
      passed += last.passed
      flakes.push([first.failures.join("\n"), ...first.text.split("\n")].join("\n  "))
    }
  }
  return { passed, failures, flakes }
}

/** The last of so many runs; `undefined` as soon as one fails. @param {number} runs @param {() => Promise<Run>} run */
async function lastOf(runs, run) {
  let last
  for (let at = 0; at < runs; at++) {
    last = await run()
    if (!isGood(last)) return undefined
  }
  return last
}
