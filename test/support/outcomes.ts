/**
 * Runs the mutants and keeps how each failed. All are run, several at a time since they mostly wait, once the first
 * outcome is asked for. A mutant that passes is tried twice more: on a busy machine a delay may hide that it is early.
 */

export const outcomesOf = <M>(
  mutants: ReadonlyArray<M>,
  failureOf: (mutant: M) => Promise<unknown>,
  concurrency: number,
): (() => ReadonlyMap<M, Promise<unknown>>) => {
  let started: Map<M, Promise<unknown>> | undefined
  return () => {
    if (started !== undefined) return started
    started = new Map()
    const waiting: Array<() => void> = []
    let running = 0
    for (const mutant of mutants) {
      const turn = new Promise<void>((resolve) => waiting.push(resolve))
      started.set(
        mutant,
        turn
          .then(async () => (await failureOf(mutant)) ?? (await failureOf(mutant)) ?? (await failureOf(mutant)))
          .finally(() => {
            running--
            next()
          }),
      )
    }
    const next = (): void => {
      for (; running < concurrency && waiting.length > 0; running++) waiting.shift()?.()
    }
    next()
    return started
  }
}
