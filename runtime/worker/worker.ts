/**
 * A worker: pulls tasks, runs them under Effect, settles them. Its life is one scope. The parts are acquired in the order
 * of {@link live}, the consumer last, and released in reverse, also when a later part does not start.
 */
import { hostname } from "node:os"
import { Cause, Effect, Exit, Scope } from "effect"
import { describeActor } from "../actor/description.ts"
import { systemClock } from "../async/clock.ts"
import { waitFor } from "../async/deadline.ts"
import { EventSender } from "../cluster/events.ts"
import { PeerWorkers } from "../cluster/peer-workers.ts"
import { CANCEL_TOPIC } from "../connection/connection.ts"
import { Connectivity } from "../connection/connectivity.ts"
import { keepListening } from "../connection/listening.ts"
import type { AttemptEnd } from "../transport/lift/transport.ts"
import { TransportError } from "../transport/mod.ts"
import { type ActorPool, makeActorPool } from "./actors/actor-pool.ts"
import { cancellationOf } from "./attempt/cancellation.ts"
import { keepPauses } from "./control/pause-keeper.ts"
import { Registry } from "./control/registry.ts"
import { obeyRemoteControl } from "./control/remote-control.ts"
import { Revoker } from "./control/revoker.ts"
import { WorkerSnapshot } from "./control/snapshot.ts"
import { RunningWorker, type Worker } from "./control/worker.ts"
import type { Held } from "./delivery/delivery.ts"
import { Flow, type FlowOptions } from "./dispatcher.ts"
import { ComingBack, Ending, type EndReason } from "./ending.ts"
import { Hands } from "./fetch/buffer.ts"
import { consume, failureOf } from "./fetch/consumer.ts"
import { PoolSize } from "./fetch/pool-size.ts"
import { reductionLines, restoredLine } from "./fetch/prefetch.ts"
import { Appetite } from "./fetch/queue-list.ts"
import { checkIsolation, inWorker, ProcessPool } from "./isolation/process-pool.ts"
import { Dependents } from "./maintenance/dependents.ts"
import { LostJobs } from "./maintenance/lost-jobs.ts"
import { maintain } from "./maintenance/maintenance.ts"
import type { WorkerOptions } from "./options.ts"
import { EarlyAcks } from "./settle/early-acks.ts"
import { Counts } from "./telemetry/counts.ts"
import { EventTeller, WorkerNews } from "./telemetry/event-teller.ts"
import { FailureTeller } from "./telemetry/failure-teller.ts"
import { Observers, type WorkerObserver } from "./telemetry/observer.ts"

/**
 * Starts a worker. Fails with `ActorStartFailed`, and when a live worker has its name; an unreachable transport is tried
 * again. When the signal fires before it has started, that ends the start, which fails. Where it fails, nothing is left.
 */
export const startWorker = async (options: WorkerOptions, signal?: AbortSignal): Promise<Worker> => {
  checkIsolation(options.actors)
  const scope = Scope.makeUnsafe()
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void))
  const started = await Effect.runPromiseExit(
    Scope.provide(live(options, close), scope),
    signal === undefined ? {} : { signal },
  )
  if (Exit.isSuccess(started)) return started.value
  await close()
  throw Cause.squash(started.cause)
}

/** A part that is made at once, and how the worker lets go of it. */
const part = <A>(make: () => A, release: (made: A) => unknown): Effect.Effect<A, never, Scope.Scope> =>
  Effect.acquireRelease(Effect.sync(make), (made) => Effect.promise(async () => release(made)))

/** A step of the start that takes its time, and that a stop does not wait for. */
const step = (run: () => Promise<void>): Effect.Effect<void, unknown> =>
  Effect.tryPromise({ try: run, catch: (cause) => cause })

const live = (options: WorkerOptions, close: () => Promise<void>): Effect.Effect<RunningWorker, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const { connection, log, name, autoscale } = options
    const hurry = new AbortController()
    const pool = yield* actorsOf(options)
    const core = coreOf(options, pool)
    const { hands, appetite, counts, snapshot } = core
    const registry = yield* registryOf(core)
    const events = yield* part(
      () => new EventSender({ connection, log, hostname: `${name}@${hostname()}`, enabled: options.events }),
      (made) => made.flush(),
    )
    const news = yield* part(
      () => new WorkerNews(events, () => ({ active: hands.running, processed: counts.processed })),
      (made) => made.end(),
    )
    const size = yield* part(
      () => new PoolSize({ hands, prefetch: options.prefetch, autoscale, log }),
      (made) => made.stop(),
    )
    // All that follows the transport, by mirrors and subscriptions, does so until this fires.
    const signal = yield* Effect.abortSignal
    const connectivity = new Connectivity(connection.transport, signal)
    const revoker = new Revoker({ connection, held: hands.held, log, signal })
    const dependents = yield* part(
      () => new Dependents({ connection, log, signal }),
      (made) => waitFor(made.end(), HAND_BACK_MS),
    )
    const early = yield* part(
      () => new EarlyAcks({ store: connection.store, worker: name, startedAt: snapshot.startedAt }),
      (made) => made.end(),
    )
    const failures = new FailureTeller(log, options.onFailure, options.maxBody)
    const observers = observersOf(core, [failures, new EventTeller(events, pool), news])
    // The flow ends the processes: before it gives back the permits of what runs in them.
    const processes = new ProcessPool(options)
    const flow = yield* flowOf(core, {
      processes,
      observers,
      connectivity,
      events,
      early,
      dependents,
      registry,
      revoker,
    })
    // What must not start is asked for while the worker takes its name.
    const onChange = () => void flow.handBack((held) => !appetite.allows(held.delivery.queue))
    const known = Promise.all([revoker.ready, keepPauses({ connection, name, appetite, onChange, log, signal })])
    yield* step(() => processes.prove(options.actors))
    yield* step(() => registry.begin())
    yield* maintenanceOf(core, { early, dependents, failures })
    const worker = new RunningWorker({ ...core, name, size, events, flow, hurry: () => hurry.abort(), close })
    listen(core, flow, worker, signal)
    const ending = yield* endingOf(core, dependents)
    const setListening = (listening: boolean): void => {
      if (listening === snapshot.isListening) return
      snapshot.isListening = listening
      observers.listening(listening)
      void registry.beat()
    }
    yield* Effect.addFinalizer(() => Effect.promise(() => drain(flow, hands, options, hurry.signal)))
    yield* consumerOf(core, { flow, size, connectivity, dependents, ending, known, setListening })
    // Handlers start once it is known what must not. At the end this comes first: no more of them start, and it is told.
    yield* part(
      () => void known.then(() => flow.open()),
      () => {
        snapshot.stop()
        setListening(false)
        ending.stop()
        flow.close()
      },
    )
    return worker
  })

const actorsOf = ({ actors, taskNames, log }: WorkerOptions) =>
  Effect.gen(function* () {
    // An actor whose start does not end cannot be stopped either: hence a scope of their own, whose end is waited for so long.
    const own = yield* part(Scope.makeUnsafe, (made) =>
      waitFor(Effect.runPromise(Scope.close(made, Exit.void)), CLOSE_MS),
    )
    return yield* Scope.provide(makeActorPool(actors.map(inWorker), taskNames, log), own)
  })

/** What needs no release: what the worker holds, how it stands, and how it ends by itself. */
const coreOf = (options: WorkerOptions, pool: ActorPool) => {
  const { log, name, autoscale } = options
  const counts = new Counts()
  const appetite = new Appetite({ queues: options.queues, isIdle: (queue) => pool.isIdle(queue) })
  const hands = new Hands({
    ...options,
    ...(autoscale === undefined ? {} : { concurrency: autoscale.min, maxConcurrency: autoscale.max }),
  })
  hands.onRestored = () => log.info(restoredLine(hands.capacity))
  const actors = options.actors.map(describeActor)
  const snapshot = new WorkerSnapshot({ name, actors: actors.map((each) => each.name), pool, hands, counts, appetite })
  const { promise: failed, resolve: fail } = Promise.withResolvers<TransportError>()
  const { promise: done, resolve: finish } = Promise.withResolvers<EndReason>()
  /** Pulls no more, and says why; the service stops the worker then. */
  const giveUp = (error: TransportError): void => {
    log.error(`the worker gives up: ${error.message}`, { reason: error.reason })
    fail(error)
  }
  return { options, pool, actors, counts, appetite, hands, snapshot, failed, giveUp, done, finish }
}

type Core = ReturnType<typeof coreOf>

const registryOf = ({ options, actors, snapshot, giveUp }: Core) =>
  part(
    () =>
      new Registry({
        store: options.connection.store,
        log: options.log,
        actors,
        describe: () => snapshot.describe(),
        onTaken: ({ message }) => giveUp(new TransportError("invalid", message)),
      }),
    (made) => made.end(),
  )

const observersOf = ({ options, counts }: Core, tellers: ReadonlyArray<WorkerObserver>): Observers => {
  const { onSettled } = options
  const settled = onSettled && { settled: (_held: Held, settlement: AttemptEnd) => onSettled(settlement) }
  return new Observers([counts, ...tellers, ...(settled ? [settled] : []), ...options.observers], options.log)
}

type FlowParts = Pick<FlowOptions, "processes" | "observers" | "connectivity" | "events" | "early" | "dependents"> & {
  readonly registry: Registry
  readonly revoker: Revoker
}

const flowOf = ({ options, pool, hands, appetite }: Core, { registry, revoker, ...parts }: FlowParts) => {
  const { connection, name } = options
  const peers = new PeerWorkers({ connection, name, isComplete: () => registry.isComplete })
  const holdOffMs: FlowOptions["holdOffMs"] = (id) => peers.holdOffMs(id)
  const isRevoked: FlowOptions["isRevoked"] = (task) => revoker.isRevoked(task)
  const allows = (queue: string) => appetite.allows(queue)
  return part(
    () => new Flow({ ...parts, worker: options, pool, hands, holdOffMs, isRevoked, allows }),
    async (made) => {
      await made.end()
      // What gives up storing with that is counted, and dropped, before the next turn.
      await new Promise((resolve) => setTimeout(resolve, 0))
    },
  )
}

interface Upkeep {
  readonly early: EarlyAcks
  readonly dependents: Dependents
  readonly failures: FailureTeller
}

const maintenanceOf = ({ options, hands, pool }: Core, { early, dependents, failures }: Upkeep) => {
  const { connection, log } = options
  const lost = new LostJobs({
    connection,
    own: early,
    holds: (token) => hands.held.has(token),
    queueFor: (task, meth) => pool.queueOf(task, meth),
    onLost: (record) => {
      failures.lost(record)
      dependents.stored(record)
    },
  })
  return part(
    () => maintain({ connection, lost, dependents, log }),
    (stop) => stop(),
  )
}

/** Hears of cancellations, commands and the loss of the connection until the signal fires. */
const listen = ({ options, actors, hands, finish }: Core, flow: Flow, worker: Worker, signal: AbortSignal): void => {
  const { connection, log } = options
  const cancelled = (payload: Uint8Array) => {
    const told = cancellationOf(payload)
    if (told !== undefined) flow.cancelled(told)
  }
  void keepListening(connection.broadcast, CANCEL_TOPIC, cancelled, { log, signal })
  obeyRemoteControl({ connection, worker, actors, shutdown: () => finish("shutdown"), log, signal })
  if (!options.cancelOnConnectionLoss) return
  const off = connection.transport.onStatus((status) => {
    if (status === "disconnected") letGo(flow, hands, options)
  })
  signal.addEventListener("abort", off, { once: true })
}

const endingOf = ({ options, hands, finish }: Core, dependents: Dependents) =>
  part(
    () => {
      const ending = new Ending({
        burst: options.burst,
        ...(options.maxIdleMs === undefined ? {} : { maxIdleMs: options.maxIdleMs }),
        held: () => hands.held.size + hands.stuck,
        isBusy: () => dependents.isBusy,
        isSpent: () => hands.isSpent,
        onEnd: finish,
      })
      hands.onChange = () => ending.look()
      return ending
    },
    (made) => made.stop(),
  )

interface ConsumerParts {
  readonly flow: Flow
  readonly size: PoolSize
  readonly connectivity: Connectivity
  readonly dependents: Dependents
  readonly ending: Ending
  /** Resolves once it is known what must not start. */
  readonly known: Promise<unknown>
  readonly setListening: (listening: boolean) => void
}

/** Pulls until it is interrupted, or the worker gives up. */
const consumerOf = ({ options, appetite, hands, snapshot, failed, giveUp }: Core, parts: ConsumerParts) => {
  const { connection, log, clock = systemClock } = options
  const { flow, size, connectivity, dependents, ending, known, setListening } = parts
  const comingBack = new ComingBack({ flow, hands, appetite, clock, log })
  const pulling = consume({
    jobs: connection.jobs,
    appetite,
    burst: options.burst,
    rotate: options.rotate,
    hands,
    log,
    connectivity,
    reconnect: options.reconnect,
    isBusy: () => dependents.isBusy,
    onReturned: () => reconnected(flow, hands, options),
    accept: (deliveries) => {
      flow.accept(deliveries)
      size.follow()
    },
    onListening: (listening) => setListening(listening && !snapshot.isStopping),
    comingBackMs: () => comingBack.ms,
    onEmpty: () => void known.then(() => comingBack.isOver()).then((isOver) => isOver && ending.foundNothing()),
  })
  const ended = (exit: Exit.Exit<unknown, TransportError>) =>
    Effect.sync(() => {
      setListening(false)
      const error = Exit.isFailure(exit) ? failureOf(exit.cause) : undefined
      if (error !== undefined) giveUp(error)
    })
  const givenUp = Effect.promise(() => failed)
  return Effect.forkScoped(Effect.onExit(Effect.raceFirst(pulling, givenUp), ended))
}

/** Hands back what waits, lets run what runs for as long as the grace, then hands that back, too. */
const drain = async (flow: Flow, hands: Hands, { graceMs, log }: WorkerOptions, hurry: AbortSignal): Promise<void> => {
  const restored = (count: number): void => {
    if (count > 0) log.info(`Restoring ${count} unacknowledged message(s)`)
  }
  restored(flow.handBack())
  await waitFor(hands.whenIdle(), graceMs, hurry)
  restored(flow.interrupt())
  await waitFor(hands.whenIdle(), HAND_BACK_MS)
}

/** The connection is lost, and nothing shall go on meanwhile: everything is handed back once it can be. */
const letGo = (flow: Flow, { running }: Hands, { log }: WorkerOptions): void => {
  flow.handBack()
  flow.interrupt()
  if (running > 0) log.warn(`the connection is lost: ${running} running task(s) are handed back`)
}

/** The connection is back. */
const reconnected = (flow: Flow, hands: Hands, options: WorkerOptions): void => {
  flow.reconnected()
  const { prefetchReduction, cancelOnConnectionLoss, log } = options
  if (!prefetchReduction || cancelOnConnectionLoss) return
  const { running, capacity } = hands
  const limit = hands.reducePrefetch()
  if (limit < capacity) for (const line of reductionLines(limit, capacity, running)) log.info(line)
}

/** Longest wait for hand-backs to be written. */
const HAND_BACK_MS = 5_000

/** Longest wait for actors to let go of their resources: that of one whose start does not end never comes. */
const CLOSE_MS = 30_000
