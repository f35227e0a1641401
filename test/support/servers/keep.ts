/**
 * Disposes of the resources that a test has started. The test registers the hook: the files of a run share modules, so
 * a hook at the top of this module would apply to the first file alone.
 */
import { onTestFinished } from "vitest"

/**
 * Disposes of a resource after the current test, last kept first. Not for tests that run side by side: the current one may
 * then be another, whose end would dispose of the resource too early.
 */
export const keep = <R extends AsyncDisposable>(resource: R): R => {
  onTestFinished(async () => resource[Symbol.asyncDispose]())
  return resource
}
