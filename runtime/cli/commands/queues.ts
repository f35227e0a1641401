/** `callboard queues`: how many tasks each queue has, and the age of the oldest. */
import type { Command } from "commander"
import { spanText } from "../format.ts"
import { runs } from "../invocation.ts"

export const addQueues = (program: Command): void => {
  const command = program.command("queues").description("list queues: what waits, is scheduled and is in flight")
  runs(command, async ({ output, withClient }) => {
    const queues = await withClient((client) => client.queues())
    if (output.json) return output.document({ queues })
    const rows = [...queues]
      .sort((a, b) => a.name.localeCompare(b.name))
      .map((queue) => [
        queue.name,
        String(queue.depth),
        String(queue.scheduled),
        String(queue.inFlight),
        queue.oldestAge === undefined ? "" : spanText(queue.oldestAge * 1_000),
        queue.paused ? output.paint("paused", "yellow") : "",
      ])
    output.table(["NAME", "DEPTH", "SCHEDULED", "IN FLIGHT", "OLDEST", ""], rows, "no queues")
  })
}
