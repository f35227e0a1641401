/** Listens on a topic and retries: a subscription that cannot be made now is made as soon as the transport is back. */
import { sleep } from "../async/timers.ts"
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
