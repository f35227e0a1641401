/** Effects that are done already need no fiber: what follows from them is called at once. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

const isDone = <A, E>(effect: Effect.Effect<A, E>): effect is Exit.Exit<A, E> => Exit.isExit(effect)

/** Whether an Effect has succeeded already. What follows can then be called without a closure for it. */
export const hasSucceeded = <A, E>(effect: Effect.Effect<A, E>): effect is Exit.Success<A, E> =>
  isDone(effect) && Exit.isSuccess(effect)

/**
 * Runs an Effect and calls back with its exit: in the same turn where it is done already, else from a fiber of its own.
 */
export const runNow = <A, E>(effect: Effect.Effect<A, E>, done: (exit: Exit.Exit<A, E>) => void): void => {
  if (isDone(effect)) done(effect)
  else Effect.runFork(effect).addObserver(done)
}
