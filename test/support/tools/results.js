/**
 * Reads the results of a run of Vitest from the lines that `progress.js` wrote during it. The run need not have ended
 * well: of a run that was killed, the passed tests are counted and the unfinished files are named.
 */

/** The environment variable that names the file of the lines. */
export const resultsFile = "CALLBOARD_TEST_PROGRESS"

/**
 * @typedef {{ files: string[] }
 *   | { begun: string }
 *   | { file: string, test: string, state: string, errors: string[] }
 *   | { ended: string, ok: boolean, errors: string[] }
 *   | { finished: true, errors: string[] }} Line
 */

/**
 * A file in which something failed, and which may pass when it is run again. `text` is all that its first failure said.
 *
 * @typedef {{ file: string, passed: number, failures: string[], text: string }} Doubtful
 */

/**
 * What is in doubt counts neither as passed nor as failed.
 *
 * @typedef {{ passed: number, failures: string[], doubtful: Doubtful[], missing: string[] }} Results
 */

/**
 * @param {string} text the lines; the last one may have been cut
 * @param {string} root what the names of files begin with
 * @param {string} how how the run ended, in words
 * @returns {Results}
 */
export function readResults(text, root, how) {
  /** @type {Set<string>} */
  const open = new Set()
  /** @type {Set<string>} */
  const untouched = new Set()
  /** `tests`: whether the file was loaded. @type {Map<string, Doubtful & { tests: boolean }>} */
  const files = new Map()
  /** @type {Results} */
  const results = { passed: 0, failures: [], doubtful: [], missing: [] }
  /** @type {string[]} */
  const outside = []
  let finished = false

  /** @param {string} name */
  const short = (name) => (name.startsWith(root) ? name.slice(root.length) : name)
  /** @param {string} file */
  const of = (file) => {
    const known = files.get(file) ?? { file, passed: 0, failures: [], text: "", tests: false }
    files.set(file, known)
    return known
  }
  /** @param {string} file @param {string} what @param {readonly string[]} errors */
  const fail = (file, what, errors = []) => {
    const failed = of(file)
    failed.text ||= errors.join("\n")
    failed.failures.push(`${short(file)}${what}`)
  }
  /** @param {readonly string[]} errors */
  const firstLine = (errors) => errors[0]?.split("\n")[0] ?? ""

  for (const each of text.split("\n").slice(0, -1)) {
    /** @type {Line} */
    const line = JSON.parse(each)
    if ("errors" in line) {
      for (const [found] of line.errors.join("\n").matchAll(/missing server: .*/g)) results.missing.push(found)
    }
    if ("files" in line) {
      for (const file of line.files) untouched.add(file)
    } else if ("begun" in line) {
      open.add(line.begun)
      untouched.delete(line.begun)
    } else if ("test" in line) {
      of(line.file).tests = true
      if (line.state === "passed") of(line.file).passed++
      else if (line.state === "failed") fail(line.file, ` > ${line.test}: ${firstLine(line.errors)}`, line.errors)
      else fail(line.file, ` > ${line.test}: ${line.state}, not run`)
    } else if ("ended" in line) {
      const file = line.ended
      open.delete(file)
      untouched.delete(file)
      // A hook that failed has the tests skipped that it is for.
      of(file).text ||= line.errors.join("\n")
      if (!line.ok && of(file).failures.length === 0)
        fail(file, `: ${firstLine(line.errors) || "failed outside of its tests"}`)
    } else {
      finished = true
      for (const error of line.errors) outside.push(`outside of tests: ${firstLine([error])}`)
    }
  }

  if (!finished) {
    for (const file of open) fail(file, `: not finished (${how})`)
    if (untouched.size > 0) outside.push(`not begun (${how}): ${[...untouched].map(short).join(", ")}`)
  }
  for (const { tests, ...result } of files.values()) {
    // A file that cannot be loaded is no flake, and what was ended before its end has no result to compare with.
    if (finished && tests && result.failures.length > 0) results.doubtful.push(result)
    else {
      results.passed += result.passed
      results.failures.push(...result.failures)
    }
  }
  results.failures.push(...outside)
  if (files.size === 0 && results.failures.length === 0) results.failures.push(`no tests were found (${how})`)
  return results
}
