/**
 * Which of the tasks that are here go first, and of which lanes that is not certain yet. Pure.
 *
 * Each lane has a consumer of its own that knows nothing of the others, so that a lane which was empty a moment ago may
 * have tasks by the time one below it hands some over. What came of a lane goes first for certain when all lanes above it
 * were seen empty since.
 */

/** A range of lanes, the first one highest. */
export interface Lanes {
  readonly from: number
  readonly to: number
}

/** How many tasks are to be taken out of a range of lanes, at most. */
export interface Share {
  readonly lanes: Lanes
  readonly max: number
}

/** A task that is here. */
export interface Candidate {
  readonly lane: number
  /** Counts what has come; the first is 1. */
  readonly number: number
  readonly delivery: { readonly sequence: number }
}

/** A lane above something that was chosen. */
export interface Above {
  readonly lane: number
  /** How many tasks of it would go first. */
  readonly wanted: number
  /** Number of the last task that was chosen below it. */
  readonly since: number
}

/** The tasks of a share, in order of lane and sequence. */
export const choose = <T extends Candidate>(
  here: ReadonlyArray<T>,
  { lanes: { from, to }, max }: Share,
): ReadonlyArray<T> => {
  const chosen = here.filter(({ lane }) => lane >= from && lane < to)
  chosen.sort((a, b) => a.lane - b.lane || a.delivery.sequence - b.delivery.sequence)
  if (chosen.length > max) chosen.length = max
  return chosen
}

/** The lanes above what was chosen, lowest first. */
export const lanesAbove = ({ lanes, max }: Share, chosen: ReadonlyArray<Candidate>): ReadonlyArray<Above> => {
  const above: Array<Above> = []
  let since = 0
  let at = chosen.length
  for (let lane = chosen.at(-1)?.lane ?? lanes.from; lane >= lanes.from; lane--) {
    if (since > 0) above.push({ lane, wanted: max - at, since })
    for (; at > 0 && chosen[at - 1]?.lane === lane; at--) since = Math.max(since, chosen[at - 1]?.number ?? 0)
  }
  return above
}
