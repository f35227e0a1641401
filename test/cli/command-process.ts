/**
 * Runs command lines as `callboard` would, one after the other, without starting a process for each: reads them as JSON
 * lines, `{ cwd, env, args }`, and answers each with a line.
 */
import { createInterface } from "node:readline"
import { run } from "../../runtime/cli/program.ts"

interface CommandLine {
  readonly cwd: string
  /** Added to the environment while the command runs; `null` takes a variable away. */
  readonly env: Readonly<Record<string, string | null>>
  readonly args: ReadonlyArray<string>
}

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

/** Sets variables of the environment; returns how to set them as they were. */
const setEnvironment = (env: CommandLine["env"]) => {
  const before = Object.keys(env).map((name) => [name, process.env[name] ?? null] as const)
  for (const [name, value] of Object.entries(env)) {
    if (value === null) delete process.env[name]
    else process.env[name] = value
  }
  return () => {
    setEnvironment(Object.fromEntries(before))
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { cwd, env, args }: CommandLine = JSON.parse(line)
  process.chdir(cwd)
  const restore = setEnvironment(env)
  const [stdout, stderr] = [caught(process.stdout), caught(process.stderr)]
  let code: number
  try {
    code = await run(args)
  } finally {
    stdout()
    stderr()
    restore()
  }
  process.stdout.write(`${JSON.stringify({ code, stdout: stdout(), stderr: stderr() })}\n`)
}
