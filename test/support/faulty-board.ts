/** The memory transport with parts replaced, for faults on command that a real broker shows only now and then. */
import type { LiftedPlugin } from "../../runtime/transport/job-store/plugin.ts"
import type { Jobs, Transport } from "../../runtime/transport/job-store/transport.ts"
import { memory } from "./memory.ts"

/** Settings for `connect` and `serve` whose transport `change` may alter; `faulty://name` is the board `memory://name`. */
export const faulty = (change: (transport: Transport) => Transport) => {
  const plugin: LiftedPlugin = {
    schemes: ["faulty"],
    connect: async (url, options) =>
      change(await memory.connect(new URL(url.href.replace(/^faulty:/, "memory:")), options)),
  }
  return { faulty: plugin }
}

export const withJobs = (change: (jobs: Jobs) => Partial<Jobs>) =>
  faulty((transport) => ({ ...transport, jobs: { ...transport.jobs, ...change(transport.jobs) } }))

/** A promise that is resolved from outside. */
export const gate = () => {
  let open: () => void = () => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
