/** The command line: what the launcher starts. Ends the process with the exit code of the command. */
import { run } from "./program.ts"

/** Everything that was written has gone out: a process that exits drops what a pipe has not taken yet. */
const flushed = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => {
    stream.write("", () => resolve())
  })

for (const stream of [process.stdout, process.stderr]) {
  // Whoever read has seen enough: `callboard jobs | head -1`.
  stream.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1))
}

const exitCode = await run(process.argv.slice(2))
await Promise.all([flushed(process.stdout), flushed(process.stderr)])
// A handler that ignores its signal must not keep a process alive that has handed its job back.
process.exit(exitCode)
