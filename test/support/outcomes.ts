/**
 * Runs the mutants and keeps how each failed. All are run, several at a time since they mostly wait, once the first
 * outcome is asked for.
 *
 * A machine that is busy hides that a mutant is early or late, so that its case passes or proves nothing. A mutant that was
 * not caught is tried again when all others have ended, alone and up to four times.
 */

import { TooBusy } from "../kit/check.ts"

const TRIES_ALONE = 4

export const outcomesOf = <M>(
  mutants: ReadonlyArray<M>,
  failureOf: (mutant: M) => Promise<unknown>,
  concurrency: number,
): (() => ReadonlyMap<M, Promise<unknown>>) => {
  let started: Map<M, Promise<unknown>> | undefined
  return () => {
    if (started !== undefined) return started
    const waiting: Array<() => void> = []
    let running = 0
    const next = (): void => {
      for (; running < concurrency && waiting.length > 0; running++) waiting.shift()?.()
    }
    const atFirst = mutants.map(async (mutant) => {
      await new Promise<void>((resolve) => waiting.push(resolve))
      try {
        return await failureOf(mutant)
      } finally {
        running--
        next()
      }
    })
    let before: Promise<unknown> = Promise.allSettled(atFirst)
    started = new Map(
      mutants.map((mutant, at) => {
        const outcome = atFirst[at]?.then((found) => {
          if (isCaught(found)) return found
          const again = before.then(() => alone(mutant, failureOf))
          before = again.catch(() => undefined)
          return again
        })
        return [mutant, outcome ?? Promise.resolve(undefined)]
      }),
    )
    next()
    return started
  }
}

const isCaught = (found: unknown): boolean => found !== undefined && !(found instanceof TooBusy)

const alone = async <M>(mutant: M, failureOf: (mutant: M) => Promise<unknown>): Promise<unknown> => {
  let found: unknown
  for (let tries = 0; tries < TRIES_ALONE && !isCaught(found); tries++) found = await failureOf(mutant)
  return found
}
