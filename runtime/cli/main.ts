/** The program that the launcher starts. Runs a command and ends the process with its exit code. */
import { run } from "./program.ts"

/** Resolves when all output was written, since a process that exits drops output that a pipe has not taken yet. */
const flushed = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => {
    stream.write("", () => resolve())
  })

/** The terminal was closed. It sends SIGHUP, by which a command ends, and a worker stops softly: without its output. */
let hasHungUp = false

for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", ({ code, message }: NodeJS.ErrnoException) => {
    hasHungUp ||= code === "EIO"
    if (hasHungUp) return
    // The reader has closed the pipe, as in `callboard jobs | head -1`.
    if (code === "EPIPE") process.exit(0)
    if (stream === process.stdout) process.stderr.write(`callboard: the output cannot be written: ${message}\n`)
    process.exit(1)
  })
}

const exitCode = await run(process.argv.slice(2))
await Promise.all([flushed(process.stdout), flushed(process.stderr)])
// What could not be written is told in a later step.
await new Promise((resolve) => setImmediate(resolve))
// Exits explicitly: a handler that ignores its signal would keep the process alive after its job was given back.
process.exit(exitCode)
