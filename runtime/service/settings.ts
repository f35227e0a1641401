/**
 * The settings of a worker, made from the options of `serve()`: checked, durations in milliseconds, defaults filled in.
 */
import { Result } from "effect"
import type { ActorDefinition } from "../actor/actor.ts"
import { DEFAULT_QUEUE } from "../cluster/directory.ts"
import { parseAutoscale } from "../options/autoscale.ts"
import { DEFAULTS } from "../options/defaults.ts"
import { milliseconds, timeToLive } from "../options/duration.ts"
import { resolveReconnect } from "../options/reconnect.ts"
import type { WorkerOptions } from "../worker/options.ts"
import { checkOptions } from "./checking.ts"
import type { ServeOptions } from "./options.ts"

/** The settings of a worker that follow from the options alone. */
type Settings = Omit<
  WorkerOptions,
  "connection" | "client" | "actors" | "name" | "leaseMs" | "leaseThread" | "log" | "observers"
>

/** Fails with `CallboardError` `invalid-input`, naming the option. */
export const settingsOf = (options: ServeOptions): Settings => {
  checkOptions(options)
  return checkedSettingsOf(options)
}

const checkedSettingsOf = (options: ServeOptions): Settings => ({
  queues: options.queues ?? queuesOf(options.actors ?? []),
  rotate: options.order === "rotate",
  concurrency: options.concurrency ?? DEFAULTS.concurrency,
  prefetch: options.prefetch ?? prefetchOf(options),
  burst: options.burst ?? false,
  ...(options.autoscale === undefined ? {} : { autoscale: Result.getOrThrow(parseAutoscale(options.autoscale)) }),
  ...(options.maxJobs === undefined ? {} : { maxJobs: options.maxJobs }),
  ...(options.maxIdle === undefined ? {} : { maxIdleMs: milliseconds("maxIdle", options.maxIdle) }),
  graceMs: milliseconds("grace", options.grace ?? DEFAULTS.grace),
  ...(options.stuckGrace === undefined ? {} : { stuckGraceMs: milliseconds("stuckGrace", options.stuckGrace) }),
  lostCap: options.lostCap ?? DEFAULTS.lostCap,
  unknownGraceMs: milliseconds("unknownGrace", options.unknownGrace ?? DEFAULTS.unknownGrace),
  maxBody: options.maxBody ?? DEFAULTS.maxBody,
  reconnect: resolveReconnect(options.reconnect),
  rateLimits: options.rateLimits ?? DEFAULTS.rateLimits,
  prefetchReduction: options.prefetchReduction ?? DEFAULTS.prefetchReduction,
  cancelOnConnectionLoss: options.cancelOnConnectionLoss ?? DEFAULTS.cancelOnConnectionLoss,
  keep: {
    resultMs: timeToLive("resultTtl", options.resultTtl ?? DEFAULTS.resultTtl),
    failureMs: timeToLive("failureTtl", options.failureTtl ?? DEFAULTS.failureTtl),
  },
  languages: new Map(Object.entries(options.languages ?? {})),
  taskNames: new Map(Object.entries(options.taskNames ?? {})),
  events: options.events ?? false,
  onFailure: options.onFailure ?? [],
  ...(options.onSettled === undefined ? {} : { onSettled: options.onSettled }),
})

const queuesOf = (actors: ReadonlyArray<ActorDefinition>): ReadonlyArray<string> => {
  const queues = new Set<string>()
  for (const actor of actors) {
    queues.add(actor.queue ?? DEFAULT_QUEUE)
    for (const method of actor.methods.values()) if (method.queue !== undefined) queues.add(method.queue)
  }
  queues.add(DEFAULT_QUEUE)
  return [...queues]
}

/**
 * In strict order a worker holds no tasks in advance: they would run before tasks that come later to an earlier queue.
 */
const prefetchOf = ({ queues = [], order = DEFAULTS.order }: ServeOptions): number =>
  order === "strict" && queues.length > 1 ? 1 : DEFAULTS.prefetch
