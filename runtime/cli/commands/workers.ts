/** `callboard workers`: the workers that are alive, their queues and actors, and their load. */
import type { Command } from "commander"
import type { WorkerDescription } from "../../cluster/directory.ts"
import { oneLine, spanText } from "../format.ts"
import { runs } from "../invocation.ts"

const COLOURS: Partial<Record<WorkerDescription["state"], "cyan" | "yellow" | "red">> = {
  busy: "cyan",
  stopping: "yellow",
  suspended: "yellow",
  stuck: "red",
}

export const addWorkers = (program: Command): void => {
  const command = program.command("workers").description("list the workers that are alive")
  runs(command, async ({ output, withClient }) => {
    const workers = await withClient((client) => client.workers())
    if (output.json) return output.document({ workers })
    const now = Date.now()
    const rows = workers.map((worker) => [
      worker.name,
      output.paint(worker.state, COLOURS[worker.state] ?? "green"),
      `${worker.running.length}/${worker.concurrency}`,
      String(worker.processed),
      String(worker.failed),
      spanText(now - Date.parse(worker.startedAt)),
      worker.queues.join(","),
      oneLine(worker.actors.join(",")),
    ])
    output.table(
      ["NAME", "STATE", "RUNNING", "PROCESSED", "FAILED", "UP", "QUEUES", "ACTORS"],
      rows,
      "no workers are alive",
    )
  })
}
