/** A transport that blocks: nobody wakes its pulls, they look again and again, and notice an abort only in between. */
import type { Transport } from "../../runtime/transport/lift/transport.ts"
import { sleep } from "./context.ts"

/** The same transport with pulls that look every `step` milliseconds. */
export const blocking = (transport: Transport, step = 300): Transport => ({
  ...transport,
  queue: {
    ...transport.queue,
    async pull(request, signal) {
      const end = Date.now() + request.wait
      for (;;) {
        const deliveries = await transport.queue.pull({ ...request, wait: 0 }, signal)
        const left = end - Date.now()
        if (deliveries.length > 0 || left <= 0 || signal.aborted) return deliveries
        await sleep(Math.min(step, left))
      }
    },
  },
})
