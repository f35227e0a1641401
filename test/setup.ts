/** Runs before each test file: files share the modules and the globals of their thread. */
import { afterEach, vi } from "vitest"

afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})
