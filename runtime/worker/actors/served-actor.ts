/**
 * One actor of a worker and its resources, supervised: `start` that fails, or a resource that reports itself broken, is
 * answered with another start after a growing wait. Too many failures within the period make the actor unhealthy: its
 * tasks are handed back instead of failing one by one, until a later start succeeds. Other actors are not touched.
 */
import { Deferred, Effect, Exit, type Scope } from "effect"
import type { ActorDefinition, RestartPolicy } from "../../actor/actor.ts"
import type { Log } from "../../log/log.ts"
import { milliseconds } from "../../options/duration.ts"

/** An actor whose `start` failed. */
export class ActorStartFailed extends Error {
  readonly _tag = "ActorStartFailed"
  override readonly name = "ActorStartFailed"
}

/** An actor's condition: `ready` runs tasks; the others hand them back. */
export type Condition = "starting" | "ready" | "restarting" | "unhealthy"

interface Started {
  readonly use: unknown
  readonly releases: ReadonlyArray<() => unknown>
  readonly abort: AbortController
}

interface Policy {
  readonly max: number
  readonly withinMs: number
  readonly baseMs: number
  readonly capMs: number
}

/** Longest wait for handlers before their resources are released: at a stop (they were told to stop), at a restart. */
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

  /** What its `start` returned. */
  get use(): unknown {
    return this.#use
  }

  /** Why it is not ready. */
  get trouble(): string {
    return this.#trouble instanceof Error ? this.#trouble.message : String(this.#trouble ?? "it is starting")
  }

  /** A handler begins with the resources; call what it returns when the handler has really ended. */
  enter(): () => void {
    this.#active++
    let left = false
    return () => {
      if (left) return
      left = true
      if (--this.#active === 0) this.#idle?.()
    }
  }

  /** Runs the actor until interrupted; `tried` hears how the first start went. Resources are released behind it. */
  run(tried: Deferred.Deferred<void, ActorStartFailed>): Effect.Effect<never> {
    return Effect.gen({ self: this }, function* () {
      while (true) {
        // Noted before the resources are released, so that no handler begins with them any more.
        const life = this.#live(tried).pipe(Effect.tapError((cause) => this.#broke(cause, tried)))
        yield* Effect.ignore(Effect.scoped(life))
        yield* Effect.sleep(this.#wait(performance.now()))
      }
    })
  }

  /** From start to the report that a resource broke. */
  readonly #live = Effect.fnUntraced(function* (this: ServedActor, tried: Deferred.Deferred<void, ActorStartFailed>) {
    const broken = yield* Deferred.make<never, unknown>()
    const started = yield* this.#acquire((cause) => Deferred.doneUnsafe(broken, Effect.fail(cause)))
    this.#use = started.use
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
      cause instanceof ActorStartFailed ? cause : new ActorStartFailed(`actor ${name} broke: ${this.trouble}`),
    )
  }

  /** How long to wait before the next start; notes the failure. */
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

  #acquire(onBroken: (cause: unknown) => void): Effect.Effect<Started, ActorStartFailed, Scope.Scope> {
    const { definition } = this
    const start = Effect.tryPromise({
      try: async (signal) => {
        const releases: Array<() => unknown> = []
        const abort = new AbortController()
        signal.addEventListener("abort", () => abort.abort())
        let use: unknown
        try {
          use = await definition.start?.({
            actor: definition.name,
            signal: abort.signal,
            onStop: (release) => releases.push(release),
            fail: onBroken,
          })
        } catch (cause) {
          // What it took until then would be taken again by each restart.
          abort.abort()
          await this.#runAll([...releases].reverse())
          throw cause
        }
        const started: Started = { use, releases, abort }
        // Stopped in the meantime: nobody else would let go of it.
        if (signal.aborted) await this.#release(started, 0)
        return started
      },
      catch: (cause) =>
        new ActorStartFailed(
          `actor ${definition.name} did not start: ${cause instanceof Error ? cause.message : String(cause)}`,
          { cause },
        ),
    })
    return Effect.acquireRelease(
      start,
      (started, exit) =>
        Effect.promise(() => this.#release(started, Exit.hasInterrupts(exit) ? STOP_PATIENCE_MS : RESTART_PATIENCE_MS)),
      // A stop does not wait for a start that may never end: its signal fires.
      { interruptible: true },
    )
  }

  /** Handlers that still use the resources end first; one that ignores its signal is not waited for longer than this. */
  async #release(started: Started, patienceMs: number): Promise<void> {
    started.abort.abort()
    if (this.#active > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, patienceMs)
        this.#idle = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    const { stop } = this.definition
    await this.#runAll([...(stop === undefined ? [] : [() => stop(started.use)]), ...[...started.releases].reverse()])
  }

  async #runAll(steps: ReadonlyArray<() => unknown>): Promise<void> {
    for (const step of steps) {
      // One resource that cannot be released must not keep the others.
      try {
        await step()
      } catch (cause) {
        this.#log.error("did not stop cleanly", { cause: String(cause) })
      }
    }
  }
}
