/** `callboard queues`: what waits where, and for how long. */
import type { Command } from "commander"
import { spanText } from "../format.ts"
import { runs } from "./command.ts"

export const addQueues = (program: Command): void => {
  const command = program.command("queues").description("list queues: what waits, is scheduled and is in flight")
  runs(command, async ({ output, withClient }) => {
    const queues = await withClient((client) => client.queues())
    if (output.json) return output.document({ queues })
    const now = Date.now()
    const rows = [...queues]
      .sort((a, b) => a.queue.localeCompare(b.queue))
      .map(({ queue, ready, scheduled, inFlight, oldest }) => [
        queue,
        String(ready),
        String(scheduled),
        String(inFlight),
        oldest === undefined ? "" : spanText(now - oldest),
      ])
    output.table(["QUEUE", "READY", "SCHEDULED", "IN FLIGHT", "OLDEST"], rows, "no queues")
  })
}
