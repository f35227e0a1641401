/** Runs many command lines one after the other, in one process: each as `callboard` would, without its start. */
import { run } from "../../runtime/cli/program.ts"

const [given = "[]"] = process.argv.slice(2)
const lines: ReadonlyArray<ReadonlyArray<string>> = JSON.parse(given)

/** What is written to a stream while a command runs. */
const caught = (stream: NodeJS.WriteStream) => {
  const write = stream.write
  let text = ""
  stream.write = (chunk: string | Uint8Array) => {
    text += typeof chunk === "string" ? chunk : new TextDecoder().decode(chunk)
    return true
  }
  return () => {
    stream.write = write
    return text
  }
}

const results: Array<{ readonly code: number; readonly stdout: string; readonly stderr: string }> = []
for (const args of lines) {
  const [stdout, stderr] = [caught(process.stdout), caught(process.stderr)]
  try {
    const code = await run(args)
    results.push({ code, stdout: stdout(), stderr: stderr() })
  } finally {
    stdout()
    stderr()
  }
}
process.stdout.write(JSON.stringify(results))
