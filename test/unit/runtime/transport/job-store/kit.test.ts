/** What the runtime makes of a driver keeps every promise of a transport: over an atomic driver, and over one in steps. */
import { describe, test, vi } from "vitest"
import type { Driver } from "../../../../../runtime/transport/driver.ts"
import { withJobs } from "../../../../../runtime/transport/job-store/with-jobs.ts"
import { type ConnectOptions, TransportError } from "../../../../../runtime/transport/mod.ts"
import { LeastBoard } from "../../../../kit/driver/least-driver.ts"
import { wholeDriver } from "../../../../kit/driver/whole-driver.ts"
import type { Harness } from "../../../../kit/harness.ts"
import { registerLifted } from "../../../../kit/run.ts"

// Most of the time of a case is waiting.
vi.setConfig({ maxConcurrency: 24 })

const harness = (
  name: string,
  connect: (board: LeastBoard, options: Pick<ConnectOptions, "lease">) => Driver,
): Harness => {
  const boards = new Map<string, LeastBoard>()
  const boardOf = (namespace: string): LeastBoard => {
    const board = boards.get(namespace) ?? new LeastBoard()
    boards.set(namespace, board)
    return board
  }
  return {
    name,
    slack: 2_500,
    capabilities: connect(new LeastBoard(), { lease: 1_000 }).capabilities,
    connect: async (options) => {
      if (!/^[A-Za-z0-9_-]{1,64}$/.test(options.namespace)) throw new TransportError("invalid", "not a namespace")
      return withJobs(connect(boardOf(options.namespace), options), options)
    },
    corrupt: async (queue, bytes, namespace) => boardOf(namespace).inject(queue, bytes),
  }
}

const step = () => Promise.resolve()

describe("over an atomic driver", () => registerLifted(test, harness("atomic", wholeDriver), { spared: "omit" }))

describe("over a driver that does one step after the other", () =>
  registerLifted(
    test,
    harness("stepwise", (board, options) => wholeDriver(board, options, { step })),
    { spared: "omit" },
  ))
