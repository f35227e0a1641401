/**
 * Runs a program of the bench in a process of its own. The program prepares itself (connects, warms up), prints READY,
 * and waits for a line; then it does the part that is measured and prints its figures as one line of JSON. It is ended
 * then, without waiting for it to stop, which is no part of any figure.
 */
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { findRuntime } from "../../../runtime/cli/runtimes.js"
import { type Spawned, spawnProcess, spawnScript } from "../../support/servers/process.ts"
import { type Figures, growth } from "../report/figures.ts"
import { processorMicros } from "./processor-time.ts"

const folder = fileURLToPath(new URL("../", import.meta.url))

/** Starts a program of test/bench on Bun. */
export const startProgram = (file: string, args: ReadonlyArray<string | number>): Spawned =>
  spawnScript(join(folder, file), args.map(String))

/** Starts a program of test/bench, in JavaScript, on Node or on Bun. */
export const startOn = (runtime: "node" | "bun", file: string, args: ReadonlyArray<string | number>): Spawned =>
  spawnProcess(executableOf(runtime), [join(folder, file), ...args.map(String)])

export const executableOf = (runtime: "node" | "bun"): string =>
  runtime === "node" ? "node" : (findRuntime("bun")?.path ?? process.execPath)

/** Long enough for the longest program on a busy machine. */
const DEADLINE_MS = 900_000

export const ready = async (program: Spawned): Promise<void> => {
  await program.waitForLine(/^READY$/, 180_000)
}

/** The line of JSON that a program prints once it has been told to go. */
export const figuresOf = async (program: Spawned): Promise<Figures> => {
  const [line] = await program.waitForLine(/^\{.*\}$/, DEADLINE_MS)
  return JSON.parse(line)
}

/** The figures that a program has printed last; nothing before it has. */
export const lastFigures = (program: Spawned): Figures | undefined => {
  // What comes after the last line end is not there wholly yet.
  const line = program.stdout
    .split("\n")
    .slice(0, -1)
    .findLast((each) => each.startsWith("{"))
  return line === undefined ? undefined : JSON.parse(line)
}

export interface Counted {
  /** The process of the broker, if there is one, or those of a cluster. */
  readonly broker?: number | ReadonlyArray<number> | undefined
  /** Processes whose time counts as the client's. Defaults to the program that is measured. */
  readonly clients?: ReadonlyArray<number>
  /** Counters of the board that only grow; how much they grow meanwhile is added to the figures. */
  readonly meter?: (program: number) => Promise<Figures>
}

/** Begins to count; the function that it gives says what has been used since. */
export const processorOf = ({ broker, clients = [] }: Counted): (() => Figures) => {
  const brokers = broker === undefined ? undefined : [broker].flat()
  const before = { client: processorMicros(clients), broker: processorMicros(brokers ?? []) }
  return () => ({
    clientMicros: processorMicros(clients) - before.client,
    ...(brokers === undefined ? {} : { brokerMicros: processorMicros(brokers) - before.broker }),
  })
}

/** Lets a started program run, and adds the processor time that client and broker have used meanwhile. */
export const measure = async (
  program: Spawned,
  { broker, clients = [program.pid], meter = async () => ({}) }: Counted,
): Promise<Figures> => {
  await using running = program
  await ready(running)
  const before = await meter(running.pid)
  const used = processorOf({ broker, clients })
  running.write("go\n")
  const figures = await figuresOf(running)
  const processor = used()
  return { ...figures, ...processor, ...growth(before, await meter(running.pid)) }
}
