/** A service over the memory transport with faults, stopped after its test. */
import { type ActorDefinition, actor, type ServeOptions, type Service } from "callboard"
import { generateId } from "../../runtime/id.ts"
import { makeLog } from "../../runtime/log/log.ts"
import { faulty } from "../support/faulty-board.ts"
import { start as startService } from "../support/services.ts"

/** Starts a service on a board of its own. `options.transports` replaces the transport without faults. */
export const start = (actors: ReadonlyArray<ActorDefinition>, options: ServeOptions = {}): Promise<Service> =>
  startService(actors, { transport: `faulty://${generateId()}`, transports: faulty((same) => same), ...options })

export const WAIT = { timeout: 60 } as const
export const quick = actor("quick", { methods: { run: () => "done" } })

/** A log that keeps its lines for the test. */
export const remembering = () => {
  const lines: Array<string> = []
  const silent = makeLog({ level: "none" })
  const log = {
    ...silent,
    enabled: () => true,
    warn: (message: string) => void lines.push(`warn ${message}`),
    error: (message: string) => void lines.push(`error ${message}`),
    with: () => log,
  }
  return { lines, log }
}
