/**
 * How many handlers a worker runs at a time, between two bounds, by the number of tasks that it holds. As Celery's
 * autoscaler, it scales up at once, and down only after it has held fewer tasks for 30 seconds.
 */
import * as Result from "effect/Result"
import { isObject } from "../protocol/guards.ts"

/** Most handlers that a worker can run at a time. */
export const MAX_HANDLERS = 10_000

/** Bounds of the number of handlers. */
export interface Autoscale {
  /** Fewest handlers, 1 at least. */
  readonly min: number
  /** Most handlers, `min` at least, 10,000 at most. */
  readonly max: number
}

/** Whether the value is a valid number of handlers: a whole number from 1 to 10,000. */
export const isHandlerCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= MAX_HANDLERS

const fieldsOf = (value: unknown): { readonly min?: unknown; readonly max?: unknown } => (isObject(value) ? value : {})

/** Reads `2..16`, or an object with `min` and `max`. Fails with a sentence that says how to write it. */
export const parseAutoscale = (value: unknown): Result.Result<Autoscale, string> => {
  const bounds = typeof value === "string" ? boundsOf(value) : fieldsOf(value)
  if (typeof bounds === "string") return Result.fail(bounds)
  const { min, max } = bounds
  if (!isHandlerCount(min) || !isHandlerCount(max))
    return Result.fail(`must be two whole numbers from 1 to ${MAX_HANDLERS}, such as 2..16`)
  if (min > max) return Result.fail(`${min}..${max} has a minimum above its maximum; did you mean ${max}..${min}?`)
  return Result.succeed({ min, max })
}

const boundsOf = (text: string): Autoscale | string => {
  const [, first, second] = /^\s*(\d{1,9})\s*\.\.\s*(\d{1,9})\s*$/.exec(text) ?? []
  if (first !== undefined && second !== undefined) return { min: Number(first), max: Number(second) }
  const [, max, min] = /^\s*(\d{1,9})\s*,\s*(\d{1,9})\s*$/.exec(text) ?? []
  // Celery writes the larger bound first, after a comma.
  if (max !== undefined && min !== undefined) return `must be written as min..max: ${min}..${max}, not ${text.trim()}`
  return "must be two whole numbers, such as 2..16"
}

/** How long a worker must have held fewer tasks before it scales down. */
export const KEEPALIVE_MS = 30_000

/** Decides the number of handlers. The caller passes the time: milliseconds of a clock that only goes forward. */
export class Autoscaler {
  readonly #keepaliveMs: number
  #bounds: Autoscale
  /** When the worker last held enough tasks for all its handlers. */
  #neededAt: number

  constructor(bounds: Autoscale, now: number, keepaliveMs = KEEPALIVE_MS) {
    this.#bounds = bounds
    this.#neededAt = now
    this.#keepaliveMs = keepaliveMs
  }

  get bounds(): Autoscale {
    return this.#bounds
  }

  set bounds(bounds: Autoscale) {
    this.#bounds = bounds
  }

  /** The number of handlers from now on, for a worker that holds `held` tasks, waiting and running. */
  scale(held: number, concurrency: number, now: number): number {
    const { min, max } = this.#bounds
    const wanted = Math.min(max, Math.max(min, held))
    if (wanted >= concurrency) {
      this.#neededAt = now
      return wanted
    }
    if (concurrency > max) return max
    return now - this.#neededAt >= this.#keepaliveMs ? wanted : concurrency
  }
}
