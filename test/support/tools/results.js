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

/** @typedef {{ passed: number, failures: string[], missing: string[] }} Results */

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
  /** @type {Set<string>} */
  const failed = new Set()
  /** @type {Results} */
  const results = { passed: 0, failures: [], missing: [] }
  let finished = false

  /** @param {string} file @param {string} what */
  const fail = (file, what) => {
    failed.add(file)
    results.failures.push(`${file}${what}`)
  }
  /** @param {string} name */
  const short = (name) => (name.startsWith(root) ? name.slice(root.length) : name)
  /** @param {readonly string[]} errors */
  const firstLine = (errors) => errors[0]?.split("\n")[0] ?? ""

  for (const each of text.split("\n").slice(0, -1)) {
    /** @type {Line} */
    const line = JSON.parse(each)
    if ("errors" in line) {
      for (const [found] of line.errors.join("\n").matchAll(/missing server: .*/g)) results.missing.push(found)
    }
    if ("files" in line) {
      for (const file of line.files) untouched.add(short(file))
    } else if ("begun" in line) {
      open.add(short(line.begun))
      untouched.delete(short(line.begun))
    } else if ("test" in line) {
      if (line.state === "passed") results.passed++
      else if (line.state === "failed") fail(short(line.file), ` > ${line.test}: ${firstLine(line.errors)}`)
      else fail(short(line.file), ` > ${line.test}: ${line.state}, not run`)
    } else if ("ended" in line) {
      const file = short(line.ended)
      open.delete(file)
      untouched.delete(file)
      if (!line.ok && !failed.has(file)) fail(file, `: ${firstLine(line.errors) || "failed outside of its tests"}`)
    } else {
      finished = true
      for (const error of line.errors) results.failures.push(`outside of tests: ${firstLine([error])}`)
    }
  }

  if (!finished) {
    for (const file of open) fail(file, `: not finished (${how})`)
    if (untouched.size > 0) results.failures.push(`not begun (${how}): ${[...untouched].join(", ")}`)
  }
  if (results.passed + results.failures.length === 0) results.failures.push(`no tests were found (${how})`)
  return results
}
