/**
 * Processes, ports and folders for tests. All of them are ended or removed when the test process ends, even by SIGKILL:
 * a separate shell, the watchdog, cleans up once its standard input closes.
 */

import { type ChildProcess, type StdioOptions, spawn } from "node:child_process"
import { randomInt, randomUUID } from "node:crypto"
import { appendFileSync, existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { runArguments } from "../../../runtime/cli/runtimes.js"
import { currentRuntime } from "../../../runtime/platform/runtime.js"

/**
 * Waits for the end of its input. Then kills the process groups in the list "$1" (`+ pid` adds one, `- pid` removes it)
 * and removes the folders in it (`d path`).
 */
const watchdogScript = `
while read -r _; do :; done
list=$1; shift
while read -r sign rest; do
  case $sign in
    +) pids="$pids $rest" ;;
    -) kept=; for each in $pids; do [ "$each" = "$rest" ] || kept="$kept $each"; done; pids=$kept ;;
    d) set -- "$@" "$rest" ;;
  esac
done < "$list"
for each in $pids; do kill -s KILL -- "-$each"; done 2>/dev/null
rm -f -- "$list"
for folder do rm -rf -- "$folder"; done
`

let watchdogList: string | undefined

function tellWatchdog(line: string): void {
  if (watchdogList === undefined) {
    watchdogList = join(tmpdir(), `callboard-watchdog-${process.pid}-${randomUUID()}`)
    // The watchdog has a session of its own, since Ctrl+C in the terminal would end it before it has cleaned up.
    const watchdog = spawn("sh", ["-c", watchdogScript, "watchdog", watchdogList], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    })
    watchdog.unref()
    const input = watchdog.stdin
    input.on("error", () => {})
    if ("unref" in input && typeof input.unref === "function") input.unref()
  }
  // The list is a file: a write to a pipe would wait for the event loop, and by then this process may be dead.
  appendFileSync(watchdogList, `${line}\n`)
}

/**
 * Whether a process has not ended. An ended process may still be listed, until its parent has asked for its exit code.
 */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return !(existsSync(`/proc/${pid}/stat`) && / Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8")))
  } catch {
    return false
  }
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface SpawnOptions {
  readonly cwd?: string
  /** Variables that are added to the environment of the test process; `undefined` removes one. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** A command that runs the following command, such as `nice`. Only {@link spawnScript} uses it. */
  readonly prefix?: ReadonlyArray<string>
}

/** A running process that collects its own output. */
export class Spawned implements AsyncDisposable {
  readonly pid: number
  readonly exited: Promise<Exit>
  /** Resolves as `exited` does, but after all output has arrived: a child process may hold the pipes open longer. */
  readonly closed: Promise<Exit>
  stdout = ""
  stderr = ""
  /** Both streams in the order of their chunks. */
  output = ""
  #child: ChildProcess
  #exit: Exit | undefined
  #groupIsEmpty = false
  #waiting = new Set<() => void>()

  constructor(child: ChildProcess, pid: number) {
    this.#child = child
    this.pid = pid
    // The whole group is ended, since the child of a launcher must not outlive it.
    tellWatchdog(`+ ${pid}`)
    child.stdout?.setEncoding("utf8").on("data", (text: string) => this.#take("stdout", text))
    child.stderr?.setEncoding("utf8").on("data", (text: string) => this.#take("stderr", text))
    this.closed = new Promise((resolve) => child.once("close", (code, signal) => resolve({ code, signal })))
    this.exited = new Promise((resolve) => {
      child.once("exit", (code, signal) => {
        this.#exit = { code, signal }
        this.#forgetEmptyGroup()
        // Output that is still in a pipe arrives just after the exit.
        setTimeout(() => this.#wake(), 50)
        resolve(this.#exit)
      })
    })
  }

  /** How the process ended; `undefined` while it runs. */
  get exit(): Exit | undefined {
    return this.#exit
  }

  /** The number of a group that has ended may be given to other processes, so it must not be signalled again. */
  #forgetEmptyGroup(): void {
    try {
      process.kill(-this.pid, 0)
    } catch {
      this.#groupIsEmpty = true
      tellWatchdog(`- ${this.pid}`)
    }
  }

  #take(stream: "stdout" | "stderr", text: string): void {
    this[stream] += text
    this.output += text
    this.#wake()
  }

  #wake(): void {
    for (const each of [...this.#waiting]) each()
  }

  /**
   * Resolves with the first match in a line of the output, past output included. Rejects with the output when the
   * deadline passes or the process ends first.
   */
  waitForLine(pattern: RegExp, deadlineMs = 60_000): Promise<RegExpMatchArray> {
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void) => {
        clearTimeout(timer)
        this.#waiting.delete(look)
        settle()
      }
      const give = (why: string) =>
        finish(() => reject(new Error(`${why} before a line matched ${pattern}; its output:\n${this.output}`)))
      const timer = setTimeout(() => give(`${deadlineMs} ms passed`), deadlineMs)
      const look = () => {
        for (const line of this.output.split("\n")) {
          const match = line.match(pattern)
          if (match) return finish(() => resolve(match))
        }
        if (this.#exit) give(`process ${this.pid} ended (${this.#exit.code ?? this.#exit.signal})`)
      }
      this.#waiting.add(look)
      look()
    })
  }

  /** Sends a signal to this process alone, as `kill` does. Defaults to SIGTERM. */
  kill(signal: NodeJS.Signals = "SIGTERM"): void {
    if (this.#exit === undefined) this.#send(this.pid, signal)
  }

  /** Sends a signal to this process and its children, as a terminal does. */
  killGroup(signal: NodeJS.Signals = "SIGINT"): void {
    if (!this.#groupIsEmpty) this.#send(-this.pid, signal)
  }

  #send(pid: number, signal: NodeJS.Signals): void {
    try {
      process.kill(pid, signal)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error
    }
  }

  write(text: string): void {
    this.#child.stdin?.write(text)
  }

  endInput(): void {
    this.#child.stdin?.end()
  }

  /** Ends the process and its children by SIGKILL. */
  async end(): Promise<void> {
    this.killGroup("SIGKILL")
    await this.exited
    this.#forgetEmptyGroup()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end()
  }
}

/**
 * PATH without the folder that `bun --bun vitest` puts in front, in which `node` is Bun: programs under test would take
 * it for Node.
 */
export const searchPath = (process.env.PATH ?? "")
  .split(delimiter)
  .filter((folder) => folder !== "" && !/[/\\]bun-node-[^/\\]*$/.test(folder))
  .join(delimiter)

/** Starts a process in a group of its own. */
export function spawnProcess(command: string, args: readonly string[] = [], options: SpawnOptions = {}): Spawned {
  // Without colours, which would keep patterns from matching a line.
  const merged: Record<string, string | undefined> = {
    ...process.env,
    PATH: searchPath,
    FORCE_COLOR: undefined,
    NO_COLOR: "1",
    ...options.env,
  }
  const env = Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== undefined))
  const stdio: StdioOptions = ["pipe", "pipe", "pipe"]
  const child = spawn(command, args, {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    env,
    stdio,
    detached: true,
  })
  if (child.pid === undefined) {
    child.once("error", () => {})
    throw new Error(`could not start ${command}`)
  }
  child.stdin?.on("error", () => {})
  return new Spawned(child, child.pid)
}

/** The arguments with which the runtime that this test runs in evaluates the text of a module. */
export function evalArguments(script: string): readonly string[] {
  if (currentRuntime() === "deno") return ["eval", "--node-modules-dir=manual", script]
  return currentRuntime() === "node" ? ["--input-type=module", "--eval", script] : ["--eval", script]
}

/** Starts a TypeScript or JavaScript program in the runtime that this test runs in. */
export function spawnScript(file: string, args: readonly string[] = [], options: SpawnOptions = {}): Spawned {
  const [command = "", ...rest] = [
    ...(options.prefix ?? []),
    process.execPath,
    ...runArguments(currentRuntime(), file),
    ...args,
  ]
  return spawnProcess(command, rest, options)
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/**
 * Starts a program as {@link spawnScript} does, on a terminal of 80 columns. The terminal joins both streams to
 * standard output.
 */
export function spawnOnTerminal(file: string, args: readonly string[] = [], options: SpawnOptions = {}): Spawned {
  const command = [process.execPath, ...runArguments(currentRuntime(), file), ...args].map(quoted).join(" ")
  // The terminal must not change line ends, since lines are split at them.
  return spawnProcess("script", ["-qefc", `stty cols 80 rows 24 -onlcr; exec ${command}`, "/dev/null"], options)
}

/**
 * Ports for the servers of tests. Systems give higher ones (from 32768 on Linux) to outgoing connections and to programs
 * that ask for any port, so no other program takes the port of a server between its end and its next start.
 */
const PORTS = { from: 12_000, to: 32_000 }

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once("error", () => resolve(false))
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)))
  })

/**
 * Keeps a port from the other test processes for as long as this one lives: between the look at a port and the start of
 * its server, and while a server is down, another process would find it free. False if another process keeps it.
 */
const keepPort = (port: number): boolean => {
  const file = join(tmpdir(), `callboard-port-${port}`)
  try {
    writeFileSync(file, `${process.pid}\n`, { flag: "wx" })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false
    throw error
  }
  removeAtEnd(file)
  return true
}

/** A free TCP port of 127.0.0.1, which no test process gets a second time before this one has ended. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries++) {
    const port = randomInt(PORTS.from, PORTS.to)
    if (keepPort(port) && (await isFree(port))) return port
  }
  throw new Error("no port is free")
}

export interface TemporaryFolder extends Disposable {
  readonly path: string
  remove(): void
}

/** A folder that is removed when this thread of the test process ends at the latest. */
export const removeAtEnd = (folder: string): void => tellWatchdog(`d ${folder}`)

/** A folder that the threads of the test process share. It is removed soon after the process has ended. */
export const removeWithProcess = (folder: string): void => {
  const remover = `while kill -0 "$1" 2>/dev/null; do sleep 1; done; rm -rf -- "$2"`
  const args = ["-c", remover, "remover", `${process.pid}`, folder]
  spawn("sh", args, { detached: true, stdio: "ignore" }).unref()
}

/** Makes an empty folder that is removed when the test process ends at the latest. */
export function temporaryFolder(): TemporaryFolder {
  // The path is resolved: on some systems the temporary folder is a link, and programs report the path behind it.
  const path = mkdtempSync(join(realpathSync(tmpdir()), "callboard-"))
  removeAtEnd(path)
  const remove = () => rmSync(path, { recursive: true, force: true, maxRetries: 3 })
  return { path, remove, [Symbol.dispose]: remove }
}

export interface EventuallyOptions {
  /**
   * Most time to wait in milliseconds. Defaults to a minute, since a busy machine is slow, and a long limit costs
   * nothing when the condition comes true.
   */
  readonly deadline?: number
  /** Milliseconds between two tries. Defaults to 20. */
  readonly every?: number
  readonly message?: string
}

/**
 * Calls a function until it returns something other than `undefined`, `null` or `false` and does not throw. Rejects at
 * the deadline with the message and the last exception.
 */
export async function eventually<A>(
  look: () => A | Promise<A>,
  { deadline = 60_000, every = 20, message = "it did not happen" }: EventuallyOptions = {},
): Promise<Exclude<A, undefined | null | false>> {
  const end = performance.now() + deadline
  for (;;) {
    let cause: unknown
    try {
      const found = await look()
      if (found !== undefined && found !== null && found !== false) {
        return found as Exclude<A, undefined | null | false>
      }
    } catch (error) {
      cause = error
    }
    if (performance.now() >= end) {
      const detail = cause instanceof Error ? `: ${cause.message}` : ""
      throw new Error(`${message} within ${deadline} ms${detail}`, { cause })
    }
    await sleep(every)
  }
}
