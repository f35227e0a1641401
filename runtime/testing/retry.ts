/** An actor whose retries follow at once: tests should not wait for a back-off. */
import { Effect } from "effect"
import type { ActorDefinition, ErasedMethod } from "../actor/actor.ts"
import { Retry } from "../actor/outcomes.ts"

/** The same actor, without any wait between attempts. How many there are is unchanged. */
export const retryAtOnce = (actor: ActorDefinition): ActorDefinition => ({
  ...actor,
  methods: new Map([...actor.methods].map(([name, method]) => [name, withoutWait(method)])),
})

const withoutWait = (method: ErasedMethod): ErasedMethod => ({
  ...method,
  retry: { ...method.retry, intervalsMs: [0] },
  run: (input, job) => {
    let answer: unknown
    try {
      answer = method.run(input, job)
    } catch (thrown) {
      throw atOnce(thrown)
    }
    if (Effect.isEffect(answer)) return Effect.mapError(answer, atOnce)
    return answer instanceof Promise
      ? answer.catch((thrown: unknown) => {
          throw atOnce(thrown)
        })
      : answer
  },
})

/** `job.retry({ after })` names its own wait, which the method's back-off does not touch. */
const atOnce = (thrown: unknown): unknown =>
  thrown instanceof Retry ? new Retry({ after: 0, ...("cause" in thrown ? { cause: thrown.cause } : {}) }) : thrown
