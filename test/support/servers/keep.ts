/**
 * Ends what a test has begun. The hook belongs to the test, not to this module: modules are shared by the files of a run,
 * and a hook at their top would be that of the first file alone.
 */
import { onTestFinished } from "vitest"

/** Disposes of a resource when the test that runs is over, last kept first. */
export const keep = <R extends AsyncDisposable>(resource: R): R => {
  onTestFinished(async () => resource[Symbol.asyncDispose]())
  return resource
}
