/**
 * A worker pulls tasks, runs them under Effect, and settles them. Its life is one scope: the parts are acquired in the
 * order of {@link live}, the consumer last, and released in reverse order, also when a later part does not start.
 */

import { hostname } from "node:os"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { describeActor } from "../actor/actor.ts"
import { systemClock, withTransportTime } from "../async/clock.ts"
import { EventSender } from "../cluster/events.ts"
import { PeerWorkers } from "../cluster/peer-workers.ts"
import { CANCEL_TOPIC, keepListening } from "../connection/connection.ts"
import { Connectivity } from "../connection/connectivity.ts"
import { StoreMirror } from "../connection/store-watch.ts"
import { cancellationOf } from "../jobs/commands/cancel.ts"
import { CHANGED } from "../jobs/commands/meta.ts"
import { compact } from "../protocol/compact.ts"
import type { ScheduleDeclaration } from "../schedules/fields.ts"
import { FailureTally } from "../statistics/failures.ts"
import { LoadWatch } from "../statistics/load.ts"
import { Tally } from "../statistics/tally.ts"
import { StatisticsWriter, type WorkerDetails } from "../statistics/writer.ts"
import type { Settlement } from "../transport/job-store/transport.ts"
import { TransportError } from "../transport/mod.ts"
import { sleep, waitFor } from "../transport/timers.ts"
import type { ActiveDelivery } from "./active-delivery.ts"
import { type ActorPool, makeActorPool } from "./actors/actor-pool.ts"
import { followQueues, Revoker } from "./control/followers.ts"
import { Registry } from "./control/registry.ts"
import { serveRemoteControl } from "./control/remote-control.ts"
import { WorkerSnapshot } from "./control/snapshot.ts"
import { RunningWorker, type Worker } from "./control/worker.ts"
import { Dispatcher, type DispatcherOptions } from "./dispatcher.ts"
import { consume, failureOf } from "./fetch/consumer.ts"
import { DeliveryBuffer } from "./fetch/delivery-buffer.ts"
import { PoolSize } from "./fetch/pool-size.ts"
import { reductionLines, restoredLine } from "./fetch/pull-size.ts"
import { QueueSubscription } from "./fetch/queue-subscription.ts"
import { StuckWatch } from "./fetch/stuck-watch.ts"
import { checkIsolation, inWorker, ProcessPool } from "./isolation/process-pool.ts"
import { holderOf } from "./limits/permits.ts"
import { Dependents } from "./maintenance/dependents.ts"
import { LostJobs } from "./maintenance/lost-jobs.ts"
import { maintain } from "./maintenance/maintenance.ts"
import type { WorkerOptions } from "./options.ts"
import { EarlyAcks } from "./run/early-acks.ts"
import { ReturningTasks, StopCondition, type StopReason } from "./stop-condition.ts"
import { StatisticsCounter, WorkerCounts } from "./telemetry/counts.ts"
import { TaskEventEmitter, WorkerEventEmitter } from "./telemetry/event-emitter.ts"
import { FailureReporter } from "./telemetry/failure-reporter.ts"
import { Observers, TaskNames, type WorkerObserver } from "./telemetry/observer.ts"

/**
 * Starts a worker. Fails with `ActorStartFailed`, and when a living worker has its name; an unreachable transport is
 * tried again. If the signal fires before the worker has started, the start fails. A start that fails leaves nothing
 * behind.
 */
export const startWorker = async (options: WorkerOptions, signal?: AbortSignal): Promise<Worker> => {
  checkIsolation(options.actors)
  const scope = Scope.makeUnsafe()
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void))
  const started = await Effect.runPromiseExit(Scope.provide(live(options, close), scope), compact({ signal }))
  if (Exit.isSuccess(started)) return started.value
  await close()
  throw Cause.squash(started.cause)
}

/** A part of the worker that is made synchronously, with its release. */
const part = <A>(make: () => A, release: (made: A) => unknown): Effect.Effect<A, never, Scope.Scope> =>
  Effect.acquireRelease(Effect.sync(make), (made) => Effect.promise(async () => release(made)))

/** An asynchronous step of the start. A stop does not wait for it. */
const step = (run: () => Promise<void>): Effect.Effect<void, unknown> =>
  Effect.tryPromise({ try: run, catch: (cause) => cause })

const live = (asked: WorkerOptions, close: () => Promise<void>): Effect.Effect<RunningWorker, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const { store, transport } = asked.connection
    const isLocal = transport.capabilities.reach !== "network"
    const { clock, ask } = withTransportTime(asked.clock ?? systemClock, store, isLocal)
    const options = { ...asked, clock }
    const { connection, log, name, autoscale } = options
    const hurry = new AbortController()
    const pool = yield* actorsOf(options)
    const load = yield* part(
      () => new LoadWatch(),
      (made) => made.stop(),
    )
    const core = coreOf(options, pool, load)
    const { buffer, subscription, counts, snapshot } = core
    const registry = yield* registryOf(core)
    const peers = new PeerWorkers({
      connection,
      name,
      taskNames: options.taskNames,
      isComplete: () => registry.isComplete,
      hasWaited: () => registry.hasWaited,
    })
    const events = yield* part(
      () => new EventSender({ connection, log, hostname: `${name}@${hostname()}`, enabled: options.events }),
      (made) => made.flush(),
    )
    const workerEvents = yield* part(
      () => new WorkerEventEmitter(events, () => ({ active: buffer.running, processed: counts.processed })),
      (made) => made.end(),
    )
    const size = yield* part(
      () => new PoolSize({ buffer, prefetch: options.prefetch, autoscale, log }),
      (made) => made.stop(),
    )
    // Mirrors and subscriptions of the transport live until this signal fires.
    const signal = yield* Effect.abortSignal
    const connectivity = new Connectivity(connection.transport, signal)
    const revoker = new Revoker({ connection, held: buffer.held, log, signal })
    const changed = new StoreMirror({
      connection,
      prefix: CHANGED.prefix,
      decode: (value) => CHANGED.decode(value),
      log,
      signal,
    })
    const dependents = yield* part(
      () => new Dependents({ connection, log, signal }),
      (made) => waitFor(made.end(), HAND_BACK_MS),
    )
    const early = yield* part(
      () => new EarlyAcks({ store: connection.store, worker: name, startedAt: snapshot.startedAt }),
      (made) => made.end(),
    )
    const failures = new FailureReporter(log, options.onFailure, options.maxBody)
    const { counter: statistics, writer } = yield* statisticsOf(core)
    const observers = observersOf(core, [
      statistics,
      failures,
      new TaskEventEmitter(events, methodIn(pool)),
      workerEvents,
    ])
    // The dispatcher ends the processes, because it must do so before it returns the permits of the handlers that run
    // in them.
    const processes = new ProcessPool(options)
    const dispatcher = yield* dispatcherOf(core, {
      processes,
      observers,
      connectivity,
      events,
      early,
      entry: registry,
      dependents,
      peers,
      revoker,
      changed,
    })
    // Pauses, limits of queues and revocations are asked for while the worker takes its name.
    const onChange = () => void dispatcher.handBack((active) => !subscription.allows(active.delivery.queue))
    const onLimits = (limits: ReadonlyMap<string, number>) => dispatcher.limitQueues(limits)
    // An outage does not keep the worker from starting: it goes by the clock of its machine until the transport has
    // answered.
    const told = ask().catch(() => undefined)
    const known = Promise.all([
      told,
      revoker.ready,
      changed.ready,
      followQueues({ connection, name, subscription, onChange, onLimits, log, signal }),
    ])
    yield* step(() => processes.checkStart(options.actors))
    registry.onDescribed = (described) => dispatcher.described(described)
    yield* step(() => registry.begin())
    // Only what was written once is missed afterwards: a worker may freeze, or be killed, within its first seconds.
    void told.then(() => writer.begin())
    const askTime = () => ask().then(clock.transportNow)
    yield* maintenanceOf(core, { early, dependents, failures, statistics, peers, askTime })
    const scheduler = yield* schedulerOf(core, askTime, signal)
    const isBusy = () => dependents.isBusy || scheduler.isBusy
    const worker = new RunningWorker({
      ...core,
      log,
      name,
      size,
      events,
      dispatcher,
      hurry: () => hurry.abort(),
      close,
    })
    listen(core, dispatcher, worker, signal)
    const stuckWatch = yield* stuckWatchOf(core, dispatcher, () => {
      onChange()
      observers.listening(worker.listening)
      void registry.beat()
    })
    const stopCondition = yield* stopConditionOf(core, isBusy)
    buffer.onChange = () => {
      stopCondition.check()
      stuckWatch.check()
    }
    snapshot.postponed = () => dispatcher.postponedByQueue()
    const setListening = (listening: boolean): void => {
      if (listening === snapshot.isListening) return
      snapshot.isListening = listening
      observers.listening(worker.listening)
      void registry.beat()
    }
    yield* Effect.addFinalizer(() => Effect.promise(() => drain(dispatcher, core, hurry.signal)))
    yield* consumerOf(core, { dispatcher, size, connectivity, isBusy, stopCondition, known, setListening })
    // Handlers start once pauses, limits of queues and revocations are known. This part is released first: no further
    // handler starts, and the worker is reported as stopping.
    yield* part(
      () => void known.then(() => dispatcher.open()),
      () => {
        snapshot.stop()
        setListening(false)
        stopCondition.stop()
        stuckWatch.stop()
        dispatcher.close()
      },
    )
    return worker
  })

const methodIn = (pool: ActorPool) => (task: string, meth: string | null) => {
  const target = pool.resolve(task, meth)
  return target.found ? target.method : undefined
}

const actorsOf = ({ actors, taskNames, log }: WorkerOptions) =>
  Effect.gen(function* () {
    // The actors have a scope of their own, because an actor whose start does not end cannot be stopped either; its end
    // is waited for only this long.
    const own = yield* part(Scope.makeUnsafe, (made) =>
      waitFor(Effect.runPromise(Scope.close(made, Exit.void)), CLOSE_MS),
    )
    return yield* Scope.provide(makeActorPool(actors.map(inWorker), taskNames, log), own)
  })

/** The parts that need no release: the buffer, the subscription, the counters and the snapshot. */
const coreOf = (options: WorkerOptions, pool: ActorPool, load: LoadWatch) => {
  const { log, name, autoscale } = options
  const counts = new WorkerCounts()
  const subscription = new QueueSubscription({ queues: options.queues, isIdle: (queue) => pool.isIdle(queue) })
  const buffer = new DeliveryBuffer({
    ...options,
    ...turnsOf(options),
    ...(autoscale === undefined ? {} : { concurrency: autoscale.min, maxConcurrency: autoscale.max }),
  })
  const pulls = new Set<Promise<unknown>>()
  buffer.onRestored = () => log.info(restoredLine(buffer.capacity))
  const actors = options.actors.map(describeActor)
  const snapshot = new WorkerSnapshot({
    name,
    leaseMs: options.leaseMs,
    actors: actors.map((each) => each.name),
    pool,
    buffer,
    counts,
    subscription,
    version: options.version,
    load: () => load.load,
  })
  const { promise: failed, resolve: fail } = Promise.withResolvers<TransportError>()
  const { promise: done, resolve: finish } = Promise.withResolvers<StopReason>()
  /** Stops pulling and reports why; the service then stops the worker. */
  const giveUp = (error: TransportError): void => {
    log.error(`the worker is stopping: ${error.message}`, { reason: error.reason })
    fail(error)
  }
  return { options, pool, actors, counts, subscription, buffer, pulls, snapshot, failed, giveUp, done, finish }
}

/** Whether queues take turns, and in no order. */
const turnsOf = ({ order }: WorkerOptions) => ({ rotate: order !== "strict", random: order === "random" })

type Core = ReturnType<typeof coreOf>

const registryOf = ({ options, actors, snapshot, giveUp }: Core) =>
  part(
    () =>
      new Registry({
        store: options.connection.store,
        log: options.log,
        actors,
        describe: () => snapshot.describe(),
        reconnectMs: options.reconnect.capMs,
        sharedLease: options.connection.transport.capabilities.sharedLease === true,
        onTaken: ({ message }) => giveUp(new TransportError("invalid", message)),
      }),
    (made) => made.end(),
  )

const observersOf = ({ options, counts }: Core, emitters: ReadonlyArray<WorkerObserver>): Observers => {
  const { onSettled } = options
  const settled = onSettled && { settled: (_held: ActiveDelivery, settlement: Settlement) => onSettled(settlement) }
  return new Observers([counts, ...emitters, ...(settled ? [settled] : []), ...options.observers], options.log)
}

/** Counts attempts, and writes the counts into the store until the worker ends. */
const statisticsOf = ({ options, subscription, buffer, snapshot }: Core) =>
  Effect.gen(function* () {
    const { connection, actors, taskNames, name, version, clock = systemClock, log } = options
    const [tally, failures] = [new Tally(), new FailureTally()]
    const describe = (): WorkerDetails => ({
      worker: name,
      host: hostname(),
      pid: process.pid,
      startedAt: snapshot.startedAt,
      ...compact({ version }),
      queues: [...subscription.listed],
      concurrency: buffer.concurrency,
    })
    const writer = yield* part(
      () => new StatisticsWriter({ connection, tally, failures, describe, now: clock.transportNow, log }),
      (made) => made.end(),
    )
    return { writer, counter: new StatisticsCounter(tally, failures, new TaskNames(actors, taskNames), clock) }
  })

type DispatcherParts = Pick<
  DispatcherOptions,
  "processes" | "observers" | "connectivity" | "events" | "early" | "entry" | "dependents"
> & {
  readonly peers: PeerWorkers
  readonly revoker: Revoker
  readonly changed: StoreMirror<true>
}

const dispatcherOf = (
  { options, pool, buffer, subscription, snapshot }: Core,
  { peers, revoker, changed, ...parts }: DispatcherParts,
) => {
  const isRevoked: DispatcherOptions["isRevoked"] = (task) =>
    revoker.isRevoked(task) || options.external?.isRevoked(task) === true
  const isChanged = (id: string) => changed.entries.size > 0 && changed.entries.has(CHANGED.key(id))
  const asked = { peers, isRevoked, isChanged, subscription, holder: holderOf(snapshot.describe()) }
  return part(
    () => new Dispatcher({ ...parts, ...asked, worker: options, pool, buffer }),
    async (made) => {
      await made.end()
      // Settlements that give up now are counted before the next turn of the event loop.
      await sleep(0)
    },
  )
}

interface MaintenanceParts {
  readonly early: EarlyAcks
  readonly dependents: Dependents
  readonly failures: FailureReporter
  readonly statistics: StatisticsCounter
  readonly peers: PeerWorkers
  readonly askTime: () => Promise<number>
}

const maintenanceOf = ({ options, buffer, pool }: Core, parts: MaintenanceParts) => {
  const { early, dependents, failures, statistics, peers, askTime } = parts
  const { connection, log } = options
  const lost = new LostJobs({
    connection,
    own: early,
    isComplete: () => peers.isComplete(),
    held: () => new Set(Array.from(buffer.held.values(), ({ delivery }) => delivery.token)),
    queueFor: (task, meth) => pool.queueOf(task, meth),
    redactFor: (task, meth) => pool.redactOf(task, meth),
    onLost: (record) => {
      statistics.lost(record)
      failures.lost(record)
      dependents.stored(record)
    },
  })
  return part(
    () => maintain({ connection, lost, dependents, peers, external: options.external, askTime, log }),
    (stop) => stop(),
  )
}

/** Posts what schedules say, as every worker does. */
const schedulerOf = ({ options }: Core, askTime: () => Promise<number>, signal: AbortSignal) => {
  const { actors, client, clock = systemClock, log } = options
  const declared = new Map(
    actors.map(({ name, methods }) => [
      name,
      new Map(
        [...methods.values()].flatMap(
          ({ name, schedule }): ReadonlyArray<[string, ScheduleDeclaration]> =>
            schedule === undefined ? [] : [[name, schedule]],
        ),
      ),
    ]),
  )
  return part(
    () => client.schedules.scheduler({ declared, askTime, transportNow: clock.transportNow, log, signal }),
    (made) => waitFor(made.end(), HAND_BACK_MS),
  )
}

/** Listens for cancellations, commands and the loss of the connection until the signal fires. */
const listen = (
  { options, actors, buffer, finish }: Core,
  dispatcher: Dispatcher,
  worker: Worker,
  signal: AbortSignal,
): void => {
  const { connection, log } = options
  const cancelled = (payload: Uint8Array) => {
    const told = cancellationOf(payload)
    if (told !== undefined) dispatcher.cancelled(told)
  }
  void keepListening(connection.broadcast, CANCEL_TOPIC, cancelled, { log, signal })
  serveRemoteControl({ connection, worker, actors, shutdown: () => finish("shutdown"), log, signal })
  if (!options.cancelOnConnectionLoss) return
  const off = connection.transport.onStatus((status) => {
    if (status === "disconnected") letGo(dispatcher, buffer, options)
  })
  signal.addEventListener("abort", off, { once: true })
}

const stuckWatchOf = ({ options, buffer, subscription, finish }: Core, dispatcher: Dispatcher, onChange: () => void) =>
  part(
    () =>
      new StuckWatch({
        buffer,
        subscription,
        clock: options.clock ?? systemClock,
        log: options.log,
        graceMs: options.stuckGraceMs ?? options.leaseMs,
        handBackSurplus: () => dispatcher.handBackSurplus(),
        onChange,
        onEnd: () => finish("stuck"),
      }),
    (made) => made.stop(),
  )

const stopConditionOf = ({ options, buffer, finish }: Core, isBusy: () => boolean) =>
  part(
    () =>
      new StopCondition({
        burst: options.burst,
        ...compact({ maxIdleMs: options.maxIdleMs }),
        inFlight: () => buffer.held.size + buffer.stuck,
        isBusy,
        isSpent: () => buffer.isSpent,
        onStop: finish,
      }),
    (made) => made.stop(),
  )

interface ConsumerParts {
  readonly dispatcher: Dispatcher
  readonly size: PoolSize
  readonly connectivity: Connectivity
  /** Whether more tasks may be queued by this worker at any moment. */
  readonly isBusy: () => boolean
  readonly stopCondition: StopCondition
  /** Resolves once pauses, limits of queues and revocations are known. */
  readonly known: Promise<unknown>
  readonly setListening: (listening: boolean) => void
}

/** Pulls until interrupted, or until the worker gives up. */
const consumerOf = ({ options, subscription, buffer, pulls, snapshot, failed, giveUp }: Core, parts: ConsumerParts) => {
  const { connection, log, clock = systemClock } = options
  const { dispatcher, size, connectivity, isBusy, stopCondition, known, setListening } = parts
  const returning = new ReturningTasks({ dispatcher, buffer, subscription, clock, log })
  const pulling = consume({
    jobs: connection.jobs,
    subscription,
    burst: options.burst,
    ...turnsOf(options),
    buffer,
    pulls,
    log,
    connectivity,
    reconnect: options.reconnect,
    isBusy,
    onReturned: () => reconnected(dispatcher, buffer, options),
    accept: (deliveries) => {
      dispatcher.accept(deliveries)
      size.follow()
    },
    onListening: (listening) => setListening(listening && !snapshot.isStopping),
    returningMs: () => returning.ms,
    onEmpty: () =>
      void known.then(() => returning.isOver()).then((isOver) => isOver && stopCondition.foundQueuesEmpty()),
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

/**
 * Gives back waiting tasks, and what pulls that are under way still bring, gives running handlers the grace, then gives their
 * tasks back, too.
 */
const drain = async (
  dispatcher: Dispatcher,
  { options: { graceMs, log }, buffer, pulls }: Core,
  hurry: AbortSignal,
): Promise<void> => {
  const restored = (count: number): void => {
    if (count > 0) log.info(`Restoring ${count} unacknowledged message(s)`)
  }
  restored(dispatcher.handBack())
  await waitFor(buffer.whenIdle(), graceMs, hurry)
  restored(dispatcher.interrupt())
  // Later the worker is not connected any more, and what a pull brings would wait for the end of its lease.
  const allBack = Promise.allSettled(pulls).then(() => buffer.whenIdle())
  await waitFor(allBack, HAND_BACK_MS)
}

/**
 * Called when the connection is lost and handlers must not go on: everything is given back as soon as that is possible.
 */
const letGo = (dispatcher: Dispatcher, { running }: DeliveryBuffer, { log }: WorkerOptions): void => {
  dispatcher.handBack()
  dispatcher.interrupt()
  if (running > 0) log.warn(`the connection is lost: ${running} running task(s) are handed back`)
}

/** Called when the connection is back. */
const reconnected = (dispatcher: Dispatcher, buffer: DeliveryBuffer, options: WorkerOptions): void => {
  dispatcher.reconnected()
  const { prefetchReduction, cancelOnConnectionLoss, log } = options
  if (!prefetchReduction || cancelOnConnectionLoss) return
  const { running, capacity } = buffer
  const limit = buffer.reducePrefetch()
  if (limit < capacity) for (const line of reductionLines(limit, capacity, running)) log.info(line)
}

/** Longest wait for hand-backs to be written. */
const HAND_BACK_MS = 5_000

/** Longest wait for actors to release their resources. An actor whose start does not end would never do so. */
const CLOSE_MS = 30_000
