/** Several reasons to stop, as one signal that lets go of them afterwards. */

/**
 * Runs `work` with a signal that fires with the first of `signals`. Unlike `AbortSignal.any` it stops listening when the
 * work is over: the signal of a service lives as long as all of its requests.
 */
export const withFirst = async <T>(
  signals: ReadonlyArray<AbortSignal>,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> => {
  const first = new AbortController()
  const fire = () => first.abort()
  for (const signal of signals) {
    if (signal.aborted) fire()
    else signal.addEventListener("abort", fire)
  }
  try {
    return await work(first.signal)
  } finally {
    for (const signal of signals) signal.removeEventListener("abort", fire)
  }
}
