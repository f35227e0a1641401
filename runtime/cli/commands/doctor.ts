/** `callboard doctor`: every setting and its source, the capabilities of the transport, and whether it can be reached. */
import type { Command } from "commander"
import { describeOptions } from "../../actor/defaults.ts"
import type { ActorDefinition } from "../../actor/definition.ts"
import { type Client, connect } from "../../client/client.ts"
import type { ResolvedSetting } from "../../config/resolving.ts"
import { DEFAULTS } from "../../config/table.ts"
import { displayUrl } from "../../connection/connect.ts"
import { currentRuntime } from "../../platform/runtime.js"
import { isObject } from "../../protocol/guards.ts"
import type { Capabilities } from "../../transport/driver.ts"
import { VERSION } from "../../version.ts"
import { CommandFailed, exitCodeOf, lineOf } from "../failure.ts"
import { bytesText, oneLine, spanText } from "../format.ts"
import { connectSettings, type Invocation, runs } from "../invocation.ts"
import { optionTexts } from "../method-options.ts"
import { columns, type Paint } from "../output.ts"
import { loadActors } from "../run-service.ts"

const versions = (): ReadonlyArray<readonly [string, string]> => {
  const { bun, deno, node } = process.versions
  return [
    ["callboard", VERSION],
    ...(bun === undefined ? [] : [["bun", bun] as const]),
    ...(deno === undefined ? [] : [["deno", deno] as const]),
    [currentRuntime() === "node" ? "node" : "node (as emulated)", node],
    ["system", `${process.platform} ${process.arch}`],
  ]
}

/** A value without tokens and passwords, which must not be printed. */
const shown = ({ setting, value }: ResolvedSetting): string => {
  if (value === undefined) return setting.here?.() ?? setting.default.replaceAll("`", "")
  if (setting.secret) return Array.isArray(value) ? `${value.length} set` : "set"
  if (setting.path === "transport") return displayUrl(String(value))
  if (setting.path === "transports" && isObject(value)) return Object.keys(value).join(", ")
  return typeof value === "string" ? value : JSON.stringify(value)
}

const yesNo = (value: boolean): string => (value ? "yes" : "no")

const capabilityRows = (can: Capabilities, canBrowse: boolean): ReadonlyArray<readonly [string, string]> => [
  ["durability", can.durability],
  ["reach", can.reach],
  ["priorities", can.bands === 1 ? "none" : `${can.bands} bands${can.front ? " and front" : ""}`],
  ["delayed tasks", can.delay > 0 ? `yes, up to ${spanText(can.dueResolution)} late` : "no"],
  ["remembers ids for", Number.isFinite(can.dedupeWindow) ? spanText(can.dedupeWindow) : "as long as the record"],
  ["largest task", bytesText(can.maxTask)],
  ["largest record", bytesText(can.maxRecord)],
  ["settles in one transaction", yesNo(can.atomic)],
  ["can be browsed", yesNo(canBrowse)],
]

interface Reached {
  readonly name: string
  readonly capabilities: Capabilities
  readonly canBrowse: boolean
  readonly ms: number
  readonly workers: number
}

/** Connects and lists the workers, since a broker may accept connections and still refuse requests. */
const connectivity = async ({ config, transport }: Invocation): Promise<Reached> => {
  const began = performance.now()
  await using client: Client = await connect(transport, connectSettings(config))
  const { name, capabilities, jobs } = client.connection.transport
  const workers = await client.workers()
  return {
    name,
    capabilities,
    canBrowse: jobs.queues !== undefined,
    ms: performance.now() - began,
    workers: workers.length,
  }
}

const settled = async <A>(run: () => Promise<A>): Promise<{ readonly value: A } | { readonly error: unknown }> => {
  try {
    return { value: await run() }
  } catch (error) {
    return { error }
  }
}

const section = (title: string, rows: ReadonlyArray<ReadonlyArray<string>>, paint: Paint, width?: number): string =>
  `${paint(title, "bold")}\n${columns(
    rows.map(([first = "", ...rest]) => [`  ${first}`, ...rest]),
    width,
  )}\n`

/** All methods, with the options that hold if a worker starts here. */
const methodsOf = (actors: ReadonlyArray<ActorDefinition>) =>
  actors.flatMap((actor) =>
    [...actor.methods.values()].map((method) => ({
      name: `${actor.name}.${method.name}`,
      options: describeOptions(method),
    })),
  )

export const addDoctor = (program: Command): void => {
  const command = program.command("doctor").description("show every setting and its origin, and test the transport")
  runs(command, async (invocation) => {
    const { resolved, config, output, transport } = invocation
    const folder = config.actors ?? DEFAULTS.actors
    const actors = await settled(() => loadActors(invocation))
    const reached = await settled(() => connectivity(invocation))
    const settings = resolved.entries.map((entry) => ({
      setting: entry.setting.path,
      value: shown(entry),
      origin: entry.origin,
    }))
    if (output.json) {
      output.document({
        versions: Object.fromEntries(versions()),
        settings,
        actors:
          "value" in actors
            ? { names: actors.value.map(({ name }) => name), methods: methodsOf(actors.value) }
            : { error: lineOf(actors.error) },
        transport: {
          url: displayUrl(transport),
          ...("value" in reached
            ? { reachable: true, ...reached.value }
            : { reachable: false, error: lineOf(reached.error) }),
        },
      })
    } else {
      const { paint } = output
      output.line(section("Versions", versions(), paint))
      const widest = (of: (each: (typeof settings)[number]) => string) =>
        Math.max(...settings.map((each) => of(each).length))
      // Where a line is too long, values are cut, since a cut name of a variable could not be typed.
      const room = output.width - widest(({ setting }) => setting) - widest(({ origin }) => origin) - 6
      const rows = settings.map(({ setting, value, origin }) => [
        setting,
        oneLine(value, Math.max(12, room)),
        paint(origin, origin === "default" ? "dim" : "cyan"),
      ])
      output.line(section("Settings", rows, paint, output.width))
      const served = "value" in actors ? actors.value : []
      const found =
        "value" in actors ? served.map(({ name }) => name).join(", ") : paint(lineOf(actors.error), "yellow")
      output.line(section("Actors", [[folder, found]], paint))
      const options = methodsOf(served).flatMap(({ name, options }) =>
        optionTexts(options).flatMap((option) =>
          option.from === "default" ? [] : [[name, option.name, option.text, paint(option.from, "cyan")]],
        ),
      )
      if (options.length > 0) output.line(section("Options of methods", options, paint, output.width))
      if ("value" in reached) {
        const { name, ms, workers, capabilities, canBrowse } = reached.value
        const state = [
          "reachable",
          paint(`yes, in ${spanText(ms)}; ${workers} worker${workers === 1 ? "" : "s"} alive`, "green"),
        ]
        output.line(
          section(
            `Transport ${name}`,
            [["url", displayUrl(transport)], state, ...capabilityRows(capabilities, canBrowse)],
            paint,
          ),
        )
      } else {
        output.line(
          section(
            "Transport",
            [
              ["url", displayUrl(transport)],
              ["reachable", paint("no", "red")],
            ],
            paint,
          ),
        )
      }
    }
    if ("error" in reached) {
      throw new CommandFailed(exitCodeOf(reached.error), output.json ? "" : lineOf(reached.error), {
        cause: reached.error,
      })
    }
  })
}
