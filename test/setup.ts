/** Runs before each test file: files share the modules and the globals of their thread. */
import { afterAll, afterEach, expect, vi } from "vitest"
import { globalsOfThread, keepVariables } from "./support/globals.ts"

afterEach(() => {
  // A spy on a virtual timer would put that timer back in place of the real one if it were restored later.
  vi.restoreAllMocks()
  vi.useRealTimers()
})

const globals = globalsOfThread()
const variables = keepVariables()

afterAll(() => {
  const left = [...globals.restore(), ...variables.restore()]
  if (left.length > 0) throw new Error(`${expect.getState().testPath} leaves replaced: ${left.join(", ")}`)
})
