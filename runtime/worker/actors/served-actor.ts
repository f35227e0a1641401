/**
 * One actor of a worker and its resources, supervised. When `start` fails, or a resource reports that it broke, the
 * actor is started again after a growing wait. After too many failures within the period the actor is unhealthy: its
 * tasks are given back instead of failing one by one, until a later start succeeds. Other actors are not affected.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import type { ActorDefinition, RestartPolicy } from "../../actor/actor.ts"
import { acquire, type Resources } from "../../actor/resources.ts"
import type { Log } from "../../log/log.ts"
import { milliseconds } from "../../options/duration.ts"

/** An actor whose `start` failed. */
export class ActorStartFailed extends Error {
  readonly _tag = "ActorStartFailed"
  override readonly name = "ActorStartFailed"
}

/** Condition of an actor. Only a `ready` actor runs tasks; the tasks of any other are given back. */
export type Condition = "starting" | "ready" | "restarting" | "unhealthy"

interface Policy {
  readonly max: number
  readonly withinMs: number
  readonly baseMs: number
  readonly capMs: number
}

/**
 * Longest wait for running handlers before their resources are released: when the worker stops (the handlers were told
 * to stop before), and when the actor restarts.
 */
const STOP_PATIENCE_MS = 1_000
const RESTART_PATIENCE_MS = 10_000

const policyOf = (restart: RestartPolicy | undefined): Policy => ({
  max: restart?.max ?? 5,
  withinMs: milliseconds("restart.within", restart?.within ?? 60),
  baseMs: milliseconds("restart.backoff.base", restart?.backoff?.base ?? 1),
  capMs: milliseconds("restart.backoff.max", restart?.backoff?.max ?? 30),
})

export class ServedActor {
  readonly definition: ActorDefinition
  readonly #log: Log
  readonly #policy: Policy
  #condition: Condition = "starting"
  #use: unknown
  #active = 0
  #idle: (() => void) | undefined
  #failures: Array<number> = []
  #trouble: unknown

  constructor(definition: ActorDefinition, log: Log) {
    this.definition = definition
    this.#log = log.with({ actor: definition.name })
    this.#policy = policyOf(definition.restart)
  }

  get condition(): Condition {
    return this.#condition
  }

  /** The value that `start` returned. */
  get use(): unknown {
    return this.#use
  }

  /** Why the actor is not ready. */
  get trouble(): string {
    return this.#trouble instanceof Error ? this.#trouble.message : String(this.#trouble ?? "it is starting")
  }

  /** Called when a handler begins to use the resources. {@link leave} is called when it has really ended. */
  enter(): void {
    this.#active++
  }

  leave(): void {
    if (--this.#active === 0) this.#idle?.()
  }

  /**
   * Runs the actor until interrupted, and releases its resources then. `tried` is completed with the outcome of the
   * first start.
   */
  run(tried: Deferred.Deferred<void, ActorStartFailed>): Effect.Effect<never> {
    // The condition changes before the resources are released, so that no new handler begins to use them.
    const life = this.#live(tried).pipe(Effect.tapError((cause) => this.#broke(cause, tried)))
    const restarts = Schedule.addDelay(Schedule.forever, () => Effect.sync(() => this.#wait(performance.now())))
    return Effect.andThen(Effect.repeat(Effect.ignore(Effect.scoped(life)), restarts), Effect.never)
  }

  /** One life of the actor: from its start to the report that a resource broke. */
  readonly #live = Effect.fnUntraced(function* (this: ServedActor, tried: Deferred.Deferred<void, ActorStartFailed>) {
    const broken = yield* Deferred.make<never, unknown>()
    const { use } = yield* this.#acquire((cause) => Deferred.doneUnsafe(broken, Effect.fail(cause)))
    this.#use = use
    this.#condition = "ready"
    yield* Deferred.succeed(tried, undefined)
    return yield* Deferred.await(broken)
  })

  #broke(cause: unknown, tried: Deferred.Deferred<void, ActorStartFailed>): Effect.Effect<unknown> {
    this.#trouble = cause
    if (this.#condition !== "unhealthy") this.#condition = "restarting"
    const { name } = this.definition
    return Deferred.fail(
      tried,
      cause instanceof ActorStartFailed ? cause : new ActorStartFailed(`actor ${name} failed: ${this.trouble}`),
    )
  }

  /** Records a failure and returns how long to wait before the next start, in milliseconds. */
  #wait(now: number): number {
    const { max, withinMs, baseMs, capMs } = this.#policy
    this.#failures = [...this.#failures.filter((at) => now - at < withinMs), now]
    const failures = this.#failures.length
    const wait = Math.min(capMs, baseMs * 2 ** (failures - 1))
    if (failures > max) {
      if (this.#condition !== "unhealthy")
        this.#log.error(
          `unhealthy: it failed ${failures} times within ${withinMs / 1000} s; its tasks are handed back`,
          { cause: this.trouble },
        )
      this.#condition = "unhealthy"
    } else
      this.#log.warn(`restarting in ${(wait / 1000).toFixed(2)} seconds (${failures}/${max})`, { cause: this.trouble })
    return wait
  }

  #acquire(onBroken: (cause: unknown) => void): Effect.Effect<Resources, ActorStartFailed, Scope.Scope> {
    const { definition } = this
    const abort = new AbortController()
    const start = Effect.tryPromise({
      try: async (signal) => {
        signal.addEventListener("abort", () => abort.abort())
        const resources = await acquire(definition, this.#log, onBroken, abort)
        // The worker stopped during the start, so nothing else will release these resources.
        if (signal.aborted) await this.#release(resources, abort, 0)
        return resources
      },
      catch: (cause) =>
        new ActorStartFailed(
          `actor ${definition.name} did not start: ${cause instanceof Error ? cause.message : String(cause)}`,
          { cause },
        ),
    })
    return Effect.acquireRelease(
      start,
      (resources, exit) => {
        const patienceMs = Exit.hasInterrupts(exit) ? STOP_PATIENCE_MS : RESTART_PATIENCE_MS
        return Effect.promise(() => this.#release(resources, abort, patienceMs))
      },
      // A stop does not wait for a start that may never end; the start's signal fires.
      { interruptible: true },
    )
  }

  /**
   * Releases the resources after the handlers that use them have ended. A handler that ignores its signal is waited for
   * `patienceMs` at most.
   */
  async #release(resources: Resources, abort: AbortController, patienceMs: number): Promise<void> {
    abort.abort()
    if (this.#active > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, patienceMs)
        this.#idle = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    await resources.release()
  }
}
