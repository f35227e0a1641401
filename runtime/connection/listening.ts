/** Listens on a topic and retries: a subscription that cannot be made now is made as soon as the transport is back. */
import type { Log } from "../log/log.ts"
import type { Broadcast } from "../transport/mod.ts"

const FIRST_WAIT_MS = 250
const LONGEST_WAIT_MS = 10_000

/** Listens until the signal fires; resolves once it does listen, or the signal has fired. */
export const keepListening = async (
  broadcast: Broadcast,
  topic: string,
  listener: (payload: Uint8Array) => void,
  options: { readonly log: Log; readonly signal: AbortSignal },
): Promise<void> => {
  const { log, signal } = options
  for (let wait = FIRST_WAIT_MS; !signal.aborted; wait = Math.min(LONGEST_WAIT_MS, wait * 2)) {
    try {
      return await broadcast.listen(topic, listener, signal)
    } catch (cause) {
      log.debug(`${topic} is not heard of yet`, { cause: String(cause) })
      await sleep(wait, signal)
    }
  }
}

/**
 * Resolves after `ms` milliseconds, or when the signal fires. Removes its listener from the signal in both cases: the
 * signal of a worker outlives many such waits.
 */
export const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener("abort", done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener("abort", done)
  })
