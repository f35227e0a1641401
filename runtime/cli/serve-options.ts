/** Makes the options of `serve()` from the settings, for the commands that start a service. */

import type { Config } from "../config/schema.ts"
import { displayUrl } from "../connection/connect.ts"
import type { HttpOptions } from "../http/server.ts"
import { type Log, makeLog } from "../log/log.ts"
import { DEFAULTS } from "../options/defaults.ts"
import type { ServeOptions } from "../service/options.ts"
import type { Service } from "../service/service.ts"
import { connectSettings, type Invocation } from "./invocation.ts"
import { type PrintedElsewhere, terminalLog } from "./terminal-log.ts"

/** Whether the output is for a person: on a terminal, and neither `--json` nor `log.format` asks for machine output. */
export const isWatched = ({ config, output }: Invocation): boolean =>
  process.stdout.isTTY === true && !output.json && (config.log?.format ?? "pretty") === "pretty"

/** The log of a long-running command, with short lines on a terminal. */
export const logOf = (invocation: Invocation, told: PrintedElsewhere = { ready: false, jobs: false }): Log => {
  const { config, output } = invocation
  if (isWatched(invocation)) return terminalLog(config.log ?? {}, told)
  return makeLog({ ...(output.json ? { format: "json" } : {}), ...config.log })
}

/** All options except actors, HTTP and log. */
export const serveOptions = ({ config, transport }: Invocation): ServeOptions => {
  const { queues, order, rateLimits, languages, taskNames, metrics, tracing, events, taskSentEvents } = config
  return {
    ...connectSettings(config),
    ...numbersAndTimes(config),
    transport,
    ...(queues === undefined ? {} : { queues }),
    ...(order === undefined ? {} : { order }),
    ...(rateLimits === undefined ? {} : { rateLimits }),
    ...(languages === undefined ? {} : { languages }),
    ...(taskNames === undefined ? {} : { taskNames }),
    ...(metrics === undefined ? {} : { metrics }),
    ...(tracing === undefined ? {} : { tracing }),
    ...(events === undefined ? {} : { events }),
    ...(taskSentEvents === undefined ? {} : { taskSentEvents }),
  }
}

const numbersAndTimes = (config: Config): ServeOptions => ({
  ...(config.concurrency === undefined ? {} : { concurrency: config.concurrency }),
  ...(config.autoscale === undefined ? {} : { autoscale: config.autoscale }),
  ...(config.prefetch === undefined ? {} : { prefetch: config.prefetch }),
  ...(config.burst === undefined ? {} : { burst: config.burst }),
  ...(config.maxJobs === undefined ? {} : { maxJobs: config.maxJobs }),
  ...(config.maxIdle === undefined ? {} : { maxIdle: config.maxIdle }),
  ...(config.grace === undefined ? {} : { grace: config.grace }),
  ...(config.stuckGrace === undefined ? {} : { stuckGrace: config.stuckGrace }),
  ...(config.resultTtl === undefined ? {} : { resultTtl: config.resultTtl }),
  ...(config.failureTtl === undefined ? {} : { failureTtl: config.failureTtl }),
  ...(config.lostCap === undefined ? {} : { lostCap: config.lostCap }),
  ...(config.unknownGrace === undefined ? {} : { unknownGrace: config.unknownGrace }),
  ...(config.maxBody === undefined ? {} : { maxBody: config.maxBody }),
  ...(config.reconnect === undefined ? {} : { reconnect: config.reconnect }),
  ...(config.prefetchReduction === undefined ? {} : { prefetchReduction: config.prefetchReduction }),
  ...(config.cancelOnConnectionLoss === undefined ? {} : { cancelOnConnectionLoss: config.cancelOnConnectionLoss }),
})

export const httpOptions = ({ http }: Config): HttpOptions => ({
  port: http?.port ?? DEFAULTS.http.port,
  host: http?.host ?? DEFAULTS.http.host,
  ...(http?.tokens === undefined ? {} : { tokens: http.tokens }),
  ...(http?.origins === undefined ? {} : { origins: http.origins }),
})

/** A transport in one line: `sqlite:.callboard/board.db (fsync)`. */
export const transportText = (service: Pick<Service, "client">, transport: string): string =>
  `${displayUrl(transport)} (durable: ${service.client.connection.transport.capabilities.durability})`
