/** The arithmetic of the report: medians, spreads, ratios, processor time per job. */

/** What one run of one contender gave, by name. */
export type Figures = Readonly<Record<string, number>>

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const half = sorted.length / 2
  const upper = sorted[Math.floor(half)] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[half - 1] ?? Number.NaN) + upper) / 2
}

/** A figure over all rounds. */
export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** The figure of each round together; nothing when no round has it. */
export const spread = (values: ReadonlyArray<number | undefined>): Spread | undefined => {
  const known = values.filter((value) => value !== undefined).filter(Number.isFinite)
  if (known.length === 0) return undefined
  return { median: median(known), min: Math.min(...known), max: Math.max(...known) }
}

/** With processor time per job, where the figures say how many jobs there were. */
export const perJob = (figures: Figures): Figures => {
  const { clientMicros, brokerMicros, ...rest } = figures
  const { jobs } = figures
  if (jobs === undefined || clientMicros === undefined) return figures
  const client = clientMicros / jobs
  if (brokerMicros === undefined) return { ...rest, client, both: client }
  const broker = brokerMicros / jobs
  return { ...rest, client, broker, both: client + broker }
}

/** How much counters have grown. */
export const growth = (before: Figures, after: Figures): Figures =>
  Object.fromEntries(Object.entries(after).map(([key, value]) => [key, value - (before[key] ?? 0)]))

/** With some of the figures divided by the jobs, as far as they are there. */
export const dividedByJobs = (figures: Figures, keys: ReadonlyArray<string>): Figures => ({
  ...figures,
  ...Object.fromEntries(
    keys.flatMap((key) => {
      const value = figures[key]
      return value === undefined ? [] : [[key, value / (figures["jobs"] ?? Number.NaN)]]
    }),
  ),
})

export type Better = "more" | "less"

type Rounds = ReadonlyArray<number | undefined>

/**
 * A figure as a part of that of others, round by round, since the machine changes between rounds: always of the best of
 * the others in that round.
 */
export const ratios = (own: Rounds, others: ReadonlyArray<Rounds>, better: Better): Rounds =>
  own.map((value, round) => {
    const measured = others.map((other) => other[round]).filter((other) => other !== undefined)
    if (value === undefined || measured.length === 0) return undefined
    return value / (better === "more" ? Math.max(...measured) : Math.min(...measured))
  })
