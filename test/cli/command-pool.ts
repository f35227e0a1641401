/**
 * Processes that run command lines for tests, one at a time each. They are started when all are busy and stay: a start
 * of the command line costs more than what most commands do. They end with the test process.
 */
import { type Spawned, spawnScript } from "../support/servers/process.ts"

export interface CommandLine {
  readonly cwd: string
  /** Added to the environment; `undefined` takes a variable away. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly args: ReadonlyArray<string>
}

export interface Answer {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const idle: Array<Spawned> = []

/**
 * Runs a command line to its end, in a process of the program `command-process.ts`. Rejects when that process ends, or
 * after a minute, with what it has written.
 */
export const runCommand = async (program: string, { cwd, env, args }: CommandLine): Promise<Answer> => {
  const child = idle.pop() ?? spawnScript(program)
  child.output = ""
  const variables = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value ?? null]))
  child.write(`${JSON.stringify({ cwd, env: variables, args })}\n`)
  try {
    // A quote that is not escaped ends the last field: what has come is the whole line.
    const [line] = await child.waitForLine(/^\{"code":.*[^\\]"\}$/)
    idle.push(child)
    return JSON.parse(line)
  } catch (error) {
    await child.end()
    throw error
  }
}
