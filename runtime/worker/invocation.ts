/** Runs a handler, whatever it answers with: a value, a promise or an Effect. */
import { Effect, Exit, Fiber } from "effect"
import type { Job } from "../job.ts"
import type { Running } from "./delivery.ts"

/** What a run must have for its handler to be called, and to be ended from outside. */
export type Invoked = Pick<Running, "method" | "interrupt" | "pending">

export const isPromiseLike = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === "object" && value !== null && "then" in value && typeof value.then === "function"

/** Runs the handler. Its exit is what came of it; when it was ended from outside, `run.stop` says why. */
export const invoke = (run: Invoked, input: unknown, job: Job): Effect.Effect<Exit.Exit<unknown, unknown>> => {
  let answer: unknown
  try {
    answer = run.method.run(input, job)
  } catch (thrown) {
    return Effect.succeed(Exit.fail(thrown))
  }
  if (isEffect(answer)) {
    const fiber = Effect.runFork(answer)
    run.interrupt = () => fiber.interruptUnsafe()
    return Fiber.await(fiber)
  }
  return isPromiseLike(answer) ? settled(run, Promise.resolve(answer)) : Effect.succeed(Exit.succeed(answer))
}

/** A handler's Effect needs nothing from outside; its failures and defects are the attempt's own. */
const isEffect = (answer: unknown): answer is Effect.Effect<unknown, unknown> => Effect.isEffect(answer)

const settled = (run: Invoked, promise: Promise<unknown>): Effect.Effect<Exit.Exit<unknown, unknown>> => {
  run.pending = promise
  return Effect.callback<Exit.Exit<unknown, unknown>>((resume) => {
    const done = (exit: Exit.Exit<unknown, unknown>) => {
      run.pending = undefined
      resume(Effect.succeed(exit))
    }
    promise.then(
      (value) => done(Exit.succeed(value)),
      (thrown: unknown) => done(Exit.fail(thrown)),
    )
    // A promise cannot be stopped, only left: it stays pending, and keeps its slot until it settles.
    run.interrupt = () => resume(Effect.succeed(Exit.interrupt()))
  })
}
