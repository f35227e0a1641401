/**
 * A reporter of Vitest that writes a line to the file named in CALLBOARD_TEST_PROGRESS as soon as something is known, so
 * that a run which is killed has still said what passed. `results.js` reads the lines.
 */

import { appendFileSync } from "node:fs"
import { resultsFile } from "./results.js"

/** @typedef {import("./results.js").Line} Line */

/** @typedef {import("vitest/node").Reporter} Reporter */

/** @implements {Reporter} */
export default class Progress {
  #file = process.env[resultsFile] ?? ""

  /** @param {Line} line */
  #write(line) {
    if (this.#file !== "") appendFileSync(this.#file, `${JSON.stringify(line)}\n`)
  }

  /** @param {ReadonlyArray<import("vitest/node").TestSpecification>} specifications */
  onTestRunStart(specifications) {
    this.#write({ files: specifications.map(({ moduleId }) => moduleId) })
  }

  /** @param {import("vitest/node").TestModule} module */
  onTestModuleQueued(module) {
    this.#write({ begun: module.moduleId })
  }

  /** @param {import("vitest/node").TestCase} test */
  onTestCaseResult(test) {
    const { state, errors = [] } = test.result()
    this.#write({
      file: test.module.moduleId,
      test: test.fullName,
      state,
      errors: errors.map(({ message }) => message),
    })
  }

  /** @param {import("vitest/node").TestModule} module */
  onTestModuleEnd(module) {
    /** @type {Array<string>} */
    const errors = [...module.errors(), ...[...module.children.allSuites()].flatMap((suite) => suite.errors())].map(
      ({ message }) => message,
    )
    this.#write({ ended: module.moduleId, ok: module.ok(), errors })
  }

  /**
   * @param {unknown} _modules
   * @param {ReadonlyArray<{ message: string }>} unhandled
   */
  onTestRunEnd(_modules, unhandled) {
    this.#write({ finished: true, errors: unhandled.map(({ message }) => message) })
  }
}
