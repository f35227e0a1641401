/** How many tasks a worker pulls, from what it has and may have: pure. */

/** What a worker has and may have. */
export interface PullState {
  /** Most handlers that can run at a time, with autoscaling. */
  readonly slots: number
  /** Tasks per handler. */
  readonly prefetch: number
  /** Slots of handlers that still run although their delivery was decided. */
  readonly stuck: number
  /** Slots for which nothing is fetched ahead, because tasks would wait there for a long run. */
  readonly slow: number
  /** Deliveries that are here. */
  readonly held: number
  /** Deliveries of these that wait for a limit, in places that no other delivery has. */
  readonly limited: number
  /** Tasks that may be fetched ahead after a broken connection; `Infinity`: as many as there are places. */
  readonly ahead: number
  /** Deliveries that ran when that number was reduced; they do not count as fetched ahead. */
  readonly spared: number
  /** Deliveries that may still come (`maxJobs`); less than 0 after a pull that brought more. */
  readonly jobsLeft: number
}

/**
 * Smallest number of tasks that may wait for limits: even a worker with few handlers can start many tasks per second
 * under a limit.
 */
const MIN_LIMITED = 64

/** Fewest deliveries for which two pulls are faster than one. */
const MIN_BATCH = 32

/** Most deliveries that wait for a slot or have one. */
export const capacityOf = ({ slots, prefetch }: PullState): number => slots * prefetch

/** Number of tasks that may be fetched ahead. */
export const aheadOf = (state: PullState): number => Math.min(capacityOf(state), state.ahead)

/** Number of deliveries that may wait for limits, in addition to those that are fetched ahead. */
export const limitCapacityOf = (state: PullState): number => Math.max(MIN_LIMITED, capacityOf(state))

/** Whether so many deliveries wait for limits that most new ones might have to be given back. */
export const isCrowded = (state: PullState): boolean => state.limited >= 0.75 * limitCapacityOf(state)

/** The capacity of the slots that are free, or will be free before long. */
const placesOf = ({ slots, prefetch, stuck, slow, held }: PullState): number => {
  const usable = Math.max(0, slots - stuck)
  // With nothing here, nothing can wait behind a long run.
  const alone = held === 0 ? 0 : Math.min(slow, usable)
  return usable * prefetch - alone * (prefetch - 1)
}

/** Number of deliveries that may still be fetched now; less than 0: so many are to be given back. */
export const freeOf = (state: PullState): number => {
  const { held, limited, spared, jobsLeft } = state
  const fetched = held - limited
  return Math.min(jobsLeft, placesOf(state) - fetched, aheadOf(state) - fetched + spared)
}

/** Number of deliveries that fit here even if all of them have to wait for a limit. */
export const freeIfLimitedOf = (state: PullState): number =>
  Math.max(0, Math.min(freeOf(state), limitCapacityOf(state) - state.limited))

/**
 * Fewest deliveries that a pull is sent for. A pull costs a round trip, so under load it waits until a quarter of the
 * places is free, or all that are fetched ahead. Buffered deliveries feed every handler meanwhile.
 */
const quarterOf = (state: PullState): number => {
  const places = placesOf(state)
  return Math.min(Math.floor(Math.min(aheadOf(state), places) / 4), places - state.slots)
}

/** Whether a pull is worth its cost. */
export const hasRoom = (state: PullState): boolean =>
  freeOf(state) >= Math.max(1, Math.min(quarterOf(state), state.jobsLeft))

/**
 * Number of deliveries to pull. While tasks wait for limits that is no more than fit here even if all of them have to wait;
 * `looks`: as many as there are free slots, because tasks without a limit may be queued behind those that have to wait.
 * Where a quarter is enough for a batch, pulls of one bring the broker work at all times. `coming`: so many others have
 * come and are not added yet: then 0 if too few fit behind them for a second pull.
 */
export const pullSize = (state: PullState, looks: boolean, coming = 0): number => {
  if (isCrowded(state) && coming === 0) return freeOf(state)
  const quarter = quarterOf(state)
  const largest = quarter >= MIN_BATCH ? quarter : Number.POSITIVE_INFINITY
  const size = Math.min((looks ? freeOf(state) : freeIfLimitedOf(state)) - coming, largest)
  return coming > 0 && size < Math.max(MIN_BATCH, quarter) ? 0 : size
}

/**
 * The number of tasks that may be fetched ahead after a broken connection, while `running` handlers go on: less than
 * before. Each task that ends raises it, as {@link restoredAhead} says.
 */
export const reducedAhead = (state: PullState, running: number): number => {
  const { prefetch } = state
  const reduced = Math.max(prefetch, capacityOf(state) - running * prefetch)
  return reduced < capacityOf(state) ? reduced : Number.POSITIVE_INFINITY
}

/** That number after one more task has ended; `Infinity`: it is not reduced any more. */
export const restoredAhead = (state: PullState): number => {
  const raised = state.ahead + state.prefetch
  return raised < capacityOf(state) ? raised : Number.POSITIVE_INFINITY
}

/** Log lines for a reduced prefetch count. */
export const reductionLines = (limit: number, max: number, running: number): ReadonlyArray<string> => [
  `Temporarily reducing the prefetch count to ${limit} to avoid over-fetching since ${running} tasks are currently being processed.`,
  `The prefetch count will be gradually restored to ${max} as the tasks complete processing.`,
]

/** Log line for a restored prefetch count. */
export const restoredLine = (max: number): string =>
  `Resuming normal operations following a restart. Prefetch count has been restored to the maximum of ${max}`
