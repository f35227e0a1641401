/** The drivers on which the kit tests its own cases and mutants: the least driver in several variants. */
import type { Driver } from "../../../runtime/transport/driver.ts"
import { type ConnectOptions, TransportError } from "../../../runtime/transport/mod.ts"
import { Line } from "../line.ts"
import { sleep } from "../stage.ts"
import { eagerDriver, type Watchers } from "./eager.ts"
import type { DriverHarness } from "./harness.ts"
import { LeastBoard, leastCapabilities, leastDriver, type Step } from "./least-driver.ts"
import { overLine } from "./line.ts"
import { poorDriver } from "./poor.ts"
import { wholeDriver } from "./whole-driver.ts"

const ALPHABET = /^[\w-]{1,64}$/

/** The boards of one harness by namespace. */
const places = () => {
  const all = new Map<string, { readonly board: LeastBoard; readonly watchers: Watchers }>()
  return (namespace: string) => {
    if (!ALPHABET.test(namespace)) throw new TransportError("invalid", `"${namespace}" is no namespace`)
    const place = all.get(namespace) ?? { board: new LeastBoard(), watchers: new Set() }
    all.set(namespace, place)
    return place
  }
}

const connected = (connect: (options: ConnectOptions) => Driver) => async (options: ConnectOptions) => connect(options)

export const leastHarness = (): DriverHarness => {
  const place = places()
  return {
    name: "least",
    capabilities: leastCapabilities,
    parts: [],
    connect: connected((options) => leastDriver(place(options.namespace).board, options)),
    corrupt: async (queue, bytes, namespace) => place(namespace).board.inject(queue, bytes),
  }
}

/** The least driver, stepwise: it can fail between two steps of a commit. */
export const stepwiseHarness = (): DriverHarness => {
  const place = places()
  const failing = new Map<Driver, string>()
  return {
    ...leastHarness(),
    name: "stepwise",
    capabilities: { ...leastCapabilities, atomic: false },
    parts: ["orphans"],
    connect: connected((options) => {
      const step: Step = async (name) => {
        // Other calls get a turn of the event loop between the steps.
        await sleep(0)
        if (failing.get(driver) === name) throw new TransportError("unavailable", `it was ended after ${name}`)
      }
      const driver: Driver = leastDriver(place(options.namespace).board, options, { step })
      return driver
    }),
    corrupt: async (queue, bytes, namespace) => place(namespace).board.inject(queue, bytes),
    failAfter: (driver, step) => {
      failing.set(driver, step)
      return () => void failing.delete(driver)
    },
  }
}

/** A driver with all optional members except `orphans`, which only a stepwise driver needs. */
export const wholeHarness = (): DriverHarness => {
  const place = places()
  const connect = connected((options) => {
    const { board, watchers } = place(options.namespace)
    return eagerDriver(wholeDriver(board, options), watchers)
  })
  return {
    ...leastHarness(),
    name: "whole",
    capabilities: { ...leastCapabilities, waits: true },
    parts: ["query", "count", "browse", "broadcast", "watch"],
    connect,
    intrude: () => Promise.reject(new TransportError("unauthorized", "these credentials are refused")),
    adopt: async (options) => ({ driver: await connect(options), isOpen: async () => true }),
    corrupt: async (queue, bytes, namespace) => place(namespace).board.inject(queue, bytes),
  }
}

export const poorHarness = (): DriverHarness => {
  const min = leastHarness()
  const capabilities = { ...leastCapabilities, delay: 5_000, bands: 1, front: false }
  const connect: DriverHarness["connect"] = async (options) => poorDriver(await min.connect(options), capabilities)
  return { ...min, name: "poor", capabilities, connect }
}

/** A driver behind a line that can be cut. */
export const lineHarness = (): DriverHarness => {
  const whole = wholeHarness()
  const line = new Line()
  const capabilities = { ...whole.capabilities, durability: "server", reach: "network" } as const
  const connect = overLine(line, whole.connect, capabilities)
  const heartbeats = new Set<number>()
  const cutFor = async (ms: number): Promise<void> => {
    line.cut()
    await sleep(ms)
    line.heal()
  }
  return {
    ...whole,
    name: "line",
    capabilities,
    connect: (options) => {
      heartbeats.add(options.heartbeat ?? 0)
      return connect(options)
    },
    restart: () => cutFor(200),
    kill: () => cutFor(50),
    cut: async () => line.cut(),
    // A connection notices by its heartbeat that the broker is silent.
    freeze: async () => {
      for (const heartbeat of heartbeats) if (heartbeat > 0) setTimeout(() => line.cut(), heartbeat)
    },
    heal: async () => line.heal(),
    loseAnswer: (count) => line.loseAnswer(count),
  }
}
