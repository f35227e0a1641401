/** `callboard queues`: what waits where, and for how long. */
import type { Command } from "commander"
import { spanText } from "../format.ts"
import { runs } from "./command.ts"

export const addQueues = (program: Command): void => {
  const command = program.command("queues").description("list queues: what waits, is scheduled and is in flight")
  runs(command, async ({ output, withClient }) => {
    const [queues, paused] = await withClient((client) => Promise.all([client.queues(), client.paused()]))
    if (output.json)
      return output.document({ queues: queues.map((each) => ({ ...each, paused: paused.includes(each.queue) })) })
    const now = Date.now()
    const rows = [...queues]
      .sort((a, b) => a.queue.localeCompare(b.queue))
      .map(({ queue, ready, scheduled, inFlight, oldest }) => [
        queue,
        String(ready),
        String(scheduled),
        String(inFlight),
        oldest === undefined ? "" : spanText(now - oldest),
        paused.includes(queue) ? output.paint("paused", "yellow") : "",
      ])
    output.table(["QUEUE", "READY", "SCHEDULED", "IN FLIGHT", "OLDEST", ""], rows, "no queues")
  })
}
