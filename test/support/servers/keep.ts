/**
 * Disposes of what a test has started. The hook is registered by the test: modules are shared by the files of a run, and
 * a hook at the top of this one would belong to the first file alone.
 */
import { onTestFinished } from "vitest"

/** Disposes of a resource when the test that runs is over, last kept first. */
export const keep = <R extends AsyncDisposable>(resource: R): R => {
  onTestFinished(async () => resource[Symbol.asyncDispose]())
  return resource
}
