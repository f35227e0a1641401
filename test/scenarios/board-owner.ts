/**
 * A process that works for a job board: registers itself, claims the first job, and then consumes it or abandons it for each
 * line of standard input. Arguments: URL, board, lease in seconds, expiry in seconds (empty: the renewed lease).
 */
import { createInterface } from "node:readline"
import { CallboardError, connect } from "callboard"

const [url = "", name = "", lease = "", expiry = ""] = process.argv.slice(2)
await using client = await connect(url)
const board = client.board(name, { lease: Number(lease) })
await board.registerEntity({ kind: "conductor", name: "c@h:1", metadata: { pid: process.pid } })
const claim = await board.take("owner", { wait: 30, ...(expiry === "" ? {} : { expiry: Number(expiry) }) })
claim.signal.addEventListener("abort", () => console.log("lost"))
console.log(`claimed ${claim.job.id}`)
for await (const line of createInterface({ input: process.stdin })) {
  const ended = line === "consume" ? claim.consume() : claim.abandon()
  console.log(
    await ended.then(
      () => "done",
      (error: unknown) => (error instanceof CallboardError ? error.code : String(error)),
    ),
  )
}
