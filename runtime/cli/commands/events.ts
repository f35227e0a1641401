/** `callboard events`: prints events of workers and applications as they are sent, until Ctrl+C. */
import { stripVTControlCharacters } from "node:util"
import type { Command } from "commander"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { latest } from "../../async/timers.ts"
import { TypePatterns, typeFilter } from "../../cluster/events.ts"
import { inOneLine } from "../../log/log-value.ts"
import type { ReceivedEvent } from "../../protocol/celery/event.ts"
import { renderJson } from "../../protocol/codec/json.ts"
import { wrongUsage } from "../failure.ts"
import { clockTime, oneLine } from "../format.ts"
import { runs } from "../invocation.ts"
import type { Colour, Output } from "../output.ts"

const MAX_VALUE = 120
const SIGNALS = ["SIGINT", "SIGTERM", "SIGQUIT"] as const

const decodeTypes = Schema.decodeUnknownResult(TypePatterns)

const typesOf = (text: string): ReadonlyArray<string> => {
  const types = text.split(",").map((type) => type.trim())
  return Result.isSuccess(decodeTypes(types))
    ? types
    : wrongUsage(`--types ${text}: separate types with commas, such as task-failed,worker-*`)
}

const COLOURS: Readonly<Record<string, Colour>> = {
  "task-succeeded": "green",
  "task-failed": "red",
  "task-rejected": "red",
  "task-retried": "yellow",
  "task-suspended": "dim",
  "task-revoked": "dim",
  "worker-heartbeat": "dim",
}

/** Any process may send events, so control characters in them must not reach the terminal. */
const plain = (value: unknown): string => {
  const text = typeof value === "string" ? value : Result.getOrElse(renderJson(value), () => "?")
  return inOneLine(oneLine(stripVTControlCharacters(text), MAX_VALUE))
}

/** One event as a line: time, type, sender, and the other fields. */
export const eventText = (event: ReceivedEvent, { paint }: Pick<Output, "paint">): string => {
  const { type, hostname, timestamp, utcoffset: _offset, pid: _pid, clock: _clock, ...rest } = event
  const at = typeof timestamp === "number" ? clockTime(new Date(timestamp * 1000), true) : "--:--:--.---"
  const fields = Object.entries(rest).flatMap(([name, value]) => {
    if (value === null || value === "") return []
    // A traceback does not fit into a line; `--json` prints it.
    return name === "traceback" ? [] : [`${paint(`${plain(name)}=`, "dim")}${plain(value)}`]
  })
  return [at, paint(plain(type).padEnd(16), COLOURS[type]), plain(hostname), ...fields].join("  ")
}

export const addEvents = (program: Command): void => {
  const command = program
    .command("events")
    .description("print the events of workers and applications until Ctrl+C")
    .option("--types <types>", "only these types, separated by commas; worker-* matches all types with that prefix")
  command.addHelpText(
    "after",
    `
Workers started with --events report every task. Nothing is replayed; after an
outage of the transport the command continues.`,
  )
  runs(command, ({ output, withClient }) => {
    const { types } = command.opts<{ readonly types?: string }>()
    const isWanted = typeFilter(types === undefined ? undefined : typesOf(types))
    return withClient(async (client) => {
      const stop = new AbortController()
      const end = () => stop.abort()
      // Not `once`, since `bun run` delivers Ctrl+C twice.
      for (const signal of SIGNALS) process.on(signal, end)
      const heard = latest<ReceivedEvent>(async (push, listening) => {
        const listener = (event: ReceivedEvent) => {
          if (isWanted(event.type)) push(event)
        }
        await client.listen(listener, listening)
        if (!output.json) output.note("listening; Ctrl+C ends")
      }, stop.signal)
      for await (const event of heard) {
        // Printed as it was received: events may hold values that JSON.stringify refuses, such as bigint.
        if (output.json) output.line(Result.getOrElse(renderJson(event), () => JSON.stringify({ type: event.type })))
        else output.line(eventText(event, output))
      }
    })
  })
}
