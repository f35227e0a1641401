/** Effects that are done already need no fiber: what follows from them is called at once. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

const isDone = <A, E>(effect: Effect.Effect<A, E>): effect is Exit.Exit<A, E> => Exit.isExit(effect)

/** A value that is there, or an Effect of one that comes later: what is there needs no Effect. */
export type MaybeEffect<A> = A | Effect.Effect<A>

/** The value of an Effect that has succeeded already; any other Effect as it is. */
export const valueOrEffect = <A>(effect: Effect.Effect<A>): MaybeEffect<A> =>
  isDone(effect) && Exit.isSuccess(effect) ? effect.value : effect

export const isEffect = <A>(value: MaybeEffect<A>): value is Effect.Effect<A> => Effect.isEffect(value)

/**
 * Runs an Effect and calls back with its exit: in the same turn where it is done already, else from a fiber of its own.
 */
export const runEffect = <A, E>(effect: Effect.Effect<A, E>, done: (exit: Exit.Exit<A, E>) => void): void => {
  if (isDone(effect)) done(effect)
  else Effect.runFork(effect).addObserver(done)
}
