/** What the options of a service come to: checked, in one unit, with their defaults. */
import { Result } from "effect"
import type { ActorDefinition, DurationInput } from "../actor.ts"
import { DEFAULTS } from "../config/defaults.ts"
import { DEFAULT_QUEUE } from "../directory.ts"
import { CallboardError } from "../errors.ts"
import { checkQueueName } from "../protocol/name.ts"
import { parseDuration, parseTimeToLive } from "../protocol/time.ts"
import { resolveReconnect } from "../reconnect.ts"
import { type Autoscale, parseAutoscale } from "../worker/consuming/autoscale.ts"
import type { WorkerOptions } from "../worker/options.ts"
import type { ServeOptions } from "./options.ts"

/** All that a worker is told by the options alone. */
type Settings = Omit<
  WorkerOptions,
  "board" | "client" | "actors" | "name" | "leaseMs" | "leaseThread" | "log" | "observers"
>

/** Fails with `CallboardError` `invalid-input`, naming the option. */
export const settingsOf = (options: ServeOptions): Settings => ({
  queues: options.queues === undefined ? queuesOf(options.actors ?? []) : options.queues.map(queueName),
  rotate: options.order === "rotate",
  concurrency: whole("concurrency", options.concurrency, DEFAULTS.concurrency, 1, 10_000),
  prefetch: whole("prefetch", options.prefetch, prefetchOf(options), 1, 1_000),
  burst: options.burst ?? false,
  ...(options.autoscale === undefined ? {} : { autoscale: bounds(options.autoscale) }),
  ...(options.maxJobs === undefined
    ? {}
    : { maxJobs: whole("maxJobs", options.maxJobs, 0, 1, Number.MAX_SAFE_INTEGER) }),
  ...(options.maxIdle === undefined ? {} : { maxIdleMs: milliseconds("maxIdle", options.maxIdle) }),
  graceMs: milliseconds("grace", options.grace ?? DEFAULTS.grace),
  lostCap: whole("lostCap", options.lostCap, DEFAULTS.lostCap, 1, 1_000),
  unknownGraceMs: milliseconds("unknownGrace", options.unknownGrace ?? DEFAULTS.unknownGrace),
  maxBody: whole("maxBody", options.maxBody, DEFAULTS.maxBody, 1, 1024 * 1024 * 1024),
  reconnect: resolveReconnect(options.reconnect),
  rateLimits: options.rateLimits ?? DEFAULTS.rateLimits,
  prefetchReduction: options.prefetchReduction ?? DEFAULTS.prefetchReduction,
  cancelOnConnectionLoss: options.cancelOnConnectionLoss ?? DEFAULTS.cancelOnConnectionLoss,
  keep: {
    resultMs: milliseconds("resultTtl", options.resultTtl ?? DEFAULTS.resultTtl, parseTimeToLive),
    failureMs: milliseconds("failureTtl", options.failureTtl ?? DEFAULTS.failureTtl, parseTimeToLive),
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

const queueName = (queue: unknown): string => {
  const checked = checkQueueName(queue)
  if (Result.isSuccess(checked)) return checked.success
  throw new CallboardError("invalid-input", `queues: ${checked.failure.message}`, { field: "queues" })
}

const milliseconds = (field: string, value: DurationInput, parse = parseDuration): number => {
  const parsed = parse(value)
  if (Result.isFailure(parsed))
    throw new CallboardError("invalid-input", `${field}: ${parsed.failure.message}`, { field })
  return parsed.success
}

const whole = (field: string, value: number | undefined, otherwise: number, least: number, most: number): number => {
  if (value === undefined) return otherwise
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new CallboardError("invalid-input", `${field}: must be a whole number from ${least} to ${most}`, { field })
  }
  return value
}

const bounds = (autoscale: unknown): Autoscale => {
  const parsed = parseAutoscale(autoscale)
  if (Result.isSuccess(parsed)) return parsed.success
  throw new CallboardError("invalid-input", `autoscale: ${parsed.failure}`, { field: "autoscale" })
}

/** What is held beyond what runs was pulled before anything that came later to a queue that is before its own. */
const prefetchOf = ({ queues = [], order = DEFAULTS.order }: ServeOptions): number =>
  order === "strict" && queues.length > 1 ? 1 : DEFAULTS.prefetch
