/**
 * Runs a service, for the commands that start one: makes its options and its log from the settings, prints what it serves
 * when it is ready, and waits until a signal stops it, or until its worker gives up.
 */

import type { ActorDefinition } from "../actor/actor.ts"
import { actorsWithDefaults } from "../actor/defaults.ts"
import { discoverActors } from "../actor/discover.ts"
import { type Config, DEFAULTS, type HttpOptions, SERVE } from "../config/table.ts"
import { displayUrl } from "../connection/connect.ts"
import { type Log, type LogSettings, makeLog } from "../log/log.ts"
import { currentRuntime } from "../platform/runtime.js"
import { compact } from "../protocol/compact.ts"
import type { ServeOptions } from "../service/options.ts"
import type { Service } from "../service/service.ts"
import type { TransportError } from "../transport/mod.ts"
import { VERSION } from "../version.ts"
import type { StopReport } from "../worker/control/worker.ts"
import { CommandFailed, EXIT, lineOf } from "./failure.ts"
import { given, type Invocation } from "./invocation.ts"
import { columns, type Output } from "./output.ts"
import { type PrintedElsewhere, terminalLog } from "./terminal-log.ts"

/** Whether the output is for a person: on a terminal, and neither `--json` nor `logFormat` asks for machine output. */
export const isWatched = ({ config, output }: Invocation): boolean =>
  process.stdout.isTTY === true && !output.json && (config.logFormat ?? "pretty") === "pretty"

export const logSettings = ({ logLevel, logLevels, logFormat, logColor }: Config): LogSettings =>
  compact({ level: logLevel, levels: logLevels, format: logFormat, color: logColor })

/** The log of a long-running command, with short lines on a terminal. */
export const logOf = (invocation: Invocation, told: PrintedElsewhere = { ready: false, jobs: false }): Log => {
  const { config, output } = invocation
  if (isWatched(invocation)) return terminalLog(logSettings(config), told)
  return makeLog({ ...(output.json ? { format: "json" } : {}), ...logSettings(config) })
}

/** The actors of the folder, whose methods have the defaults of the configuration. */
export const loadActors = async ({ config, resolved }: Invocation): Promise<ReadonlyArray<ActorDefinition>> => {
  const origins = new Map(resolved.entries.map(({ setting, origin }) => [setting.path, origin]))
  const actors = await discoverActors(config.actors ?? DEFAULTS.actors)
  return actorsWithDefaults(actors, config, (option) => origins.get(option) ?? "default")
}

/** All options except actors, HTTP and log. */
export const serveOptions = ({ config, transport }: Invocation): ServeOptions => ({
  ...given(config, SERVE),
  transport,
})

export const httpOptions = ({ http }: Config): HttpOptions => ({
  port: DEFAULTS.http.port,
  host: DEFAULTS.http.host,
  ...http,
})

/** A transport in one line: `sqlite:.callboard/board.db (fsync)`. */
export const transportText = (service: Pick<Service, "client">, transport: string): string =>
  `${displayUrl(transport)} (durable: ${service.client.connection.transport.capabilities.durability})`

/** Resolves when the service has stopped, and logs a summary. Fails with exit code 1 when the worker gave up by itself. */
export const untilStopped = async (service: Service, log: Log, invocation: Invocation): Promise<void> => {
  const report = await stopOf(service)
  // On a terminal the numbers are in the text; for programs they are fields.
  const fields = isWatched(invocation) ? {} : { ...report }
  log.with({ logger: "callboard.cli" })[report.lost > 0 ? "warn" : "info"](stopText(report), fields)
}

/** The failure of a worker that has given up reaching its transport. */
export const gaveUp = (cause: TransportError): CommandFailed =>
  new CommandFailed(EXIT.failed, `the worker is stopping: ${lineOf(cause)}`, { cause })

export const stopText = ({ finished, handedBack, stuck, lost }: StopReport): string =>
  [
    `stopped: ${finished} finished`,
    `${handedBack} handed back`,
    ...(stuck > 0 ? [`${stuck} ignored their signal`] : []),
    ...(lost > 0 ? [`${lost} not handed back (they are delivered again when their leases expire)`] : []),
  ].join(", ")

/** The report of a service once it has stopped. Fails like {@link untilStopped}. */
export const stopOf = async (service: Service): Promise<StopReport> => {
  const failure = await Promise.race([service.stopped.then(() => undefined), service.failed])
  if (failure !== undefined) {
    // Tasks are given back where the transport can be reached; the others are delivered again when their leases end.
    await service.stop({ now: true })
    throw gaveUp(failure)
  }
  const report = await service.stopped
  const reason = await Promise.race([service.worker?.done, undefined])
  if (reason === "stuck")
    throw new CommandFailed(
      EXIT.stuck,
      `${report.stuck} handlers did not stop: the process exits and must be restarted`,
    )
  return report
}

type Row = readonly [name: string, value: string]

/** A row for each actor, with its methods. */
export const actorRows = (actors: ReadonlyArray<ActorDefinition>): ReadonlyArray<Row> =>
  actors.map(({ name, methods }, at) => [at === 0 ? "actors" : "", `${name}: ${[...methods.keys()].join(", ")}`])

/** The lines on a terminal when the service is ready: actors, queues, transport, address. */
export const printBanner = (output: Output, rows: ReadonlyArray<Row>): void => {
  const name = currentRuntime()
  const runtime = `${{ bun: "Bun", deno: "Deno", node: "Node" }[name]} ${process.versions[name]}`
  output.line(`${output.paint(`callboard ${VERSION}`, "bold")} on ${runtime}\n`)
  output.line(columns(rows.map(([name, value]) => [`  ${output.paint(name, "dim")}`, value])))
}
