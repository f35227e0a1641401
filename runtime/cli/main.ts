/** The program that the launcher starts. Runs a command and ends the process with its exit code. */
import { allWritten } from "../platform/bun.ts"
import { nextTurn } from "../transport/timers.ts"
import { run } from "./program.ts"

/** The terminal was closed. It sends SIGHUP, by which a command ends, and a worker stops softly: without its output. */
let hasHungUp = false

for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", ({ code, message }: NodeJS.ErrnoException) => {
    hasHungUp ||= code === "EIO"
    // A handler that goes on after the command may still print.
    if (hasHungUp || code === "ERR_STREAM_WRITE_AFTER_END") return
    // The reader has closed the pipe, as in `callboard jobs | head -1`.
    if (code === "EPIPE") process.exit(0)
    if (stream === process.stdout) process.stderr.write(`callboard: the output cannot be written: ${message}\n`)
    process.exit(1)
  })
}

const exitCode = await run(process.argv.slice(2))
// A process that exits drops output that a pipe has not taken yet. What could not be written is told in a later step. On Node
// 24.21 the end of a terminal that was closed never calls back.
for (const stream of [process.stdout, process.stderr]) {
  if (!hasHungUp) await allWritten(stream)
  await nextTurn()
}
// Exits explicitly: a handler that ignores its signal would keep the process alive after its job was given back.
process.exit(exitCode)
