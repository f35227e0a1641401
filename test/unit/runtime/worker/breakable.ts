/** A memory transport behind a connection that can be cut, and the log of its worker. */

import type { ServeOptions } from "callboard"
import { generateId } from "../../../../runtime/id.ts"
import type { LiftedPlugin } from "../../../../runtime/transport/job-store/plugin.ts"
import type { Transport } from "../../../../runtime/transport/job-store/transport.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"
import { listingLog } from "../../../support/listing-log.ts"
import { memory } from "../../../support/memory.ts"

export interface Breakable {
  /** Options for `start`. */
  readonly options: ServeOptions
  /** The log lines, in order. */
  readonly lines: ReadonlyArray<string>
  cut(): void
  republishOrphans(): void
  /** Whether the worker has its broadcast subscriptions. */
  listens(): boolean
}

/** With `listensLater` the first two subscriptions fail. */
export const breakable = ({ listensLater = false } = {}): Breakable => {
  const { lines, log } = listingLog()
  const listeners = new Set<(status: "connected" | "disconnected") => void>()
  let isCut = false
  let refusals = listensLater ? 2 : 0
  let listening = false
  const gone = () => new TransportError("unavailable", "the line is cut")
  const wrap = (transport: Transport): Transport => ({
    ...transport,
    jobs: {
      ...transport.jobs,
      take: async (request, signal) => {
        if (isCut) throw gone()
        return transport.jobs.take(request, signal)
      },
      settle: async (all) => {
        if (isCut) throw gone()
        return transport.jobs.settle(all)
      },
    },
    ...(transport.broadcast === undefined
      ? {}
      : {
          broadcast: {
            ...transport.broadcast,
            listen: async (topic, listener, signal) => {
              if (topic === "cancel" && refusals-- > 0) throw gone()
              await transport.broadcast?.listen(topic, listener, signal)
              if (topic === "cancel") listening = true
            },
          },
        }),
    onStatus: (listener) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  })
  const wrapped: LiftedPlugin = {
    schemes: ["cut"],
    connect: async (_, options) => wrap(await memory.connect(new URL(`memory://${generateId()}`), options)),
  }
  const tell = (status: "connected" | "disconnected") => {
    isCut = status === "disconnected"
    for (const listener of [...listeners]) listener(status)
  }
  return {
    options: { transport: "cut:", transports: { cut: wrapped }, log, reconnect: { base: 0.02, cap: 0.1 } },
    lines,
    cut: () => tell("disconnected"),
    republishOrphans: () => tell("connected"),
    listens: () => listening,
  }
}
