/** Which of the tasks that have come go first. Pure. */

/** A range of lanes, the first one highest. */
export interface Lanes {
  readonly from: number
  readonly to: number
}

/** A task that is here. */
export interface Candidate {
  readonly lane: number
  readonly delivery: { readonly sequence: number }
}

/** By lane, then by age. */
export const inOrder = <T extends Candidate>(here: ReadonlyArray<T>): ReadonlyArray<T> =>
  [...here].sort((a, b) => a.lane - b.lane || a.delivery.sequence - b.delivery.sequence)

/** One task of each queue in turn, beginning with the queue `first`; within a queue by lane, then by age. */
export const inTurns = <T extends Candidate>(
  here: ReadonlyArray<T>,
  queueOf: (lane: number) => number,
  queues: number,
  first: number,
): ReadonlyArray<T> => {
  const rounds = new Array<number>(queues).fill(0)
  const placed = inOrder(here).map((task) => {
    const queue = queueOf(task.lane)
    const round = rounds[queue] ?? 0
    rounds[queue] = round + 1
    return { task, place: round * queues + ((queue - first + queues) % queues) }
  })
  return placed.sort((a, b) => a.place - b.place).map(({ task }) => task)
}
