/**
 * A transport as an author outside of this repository would write it, in a package of its own. It lives in the memory of
 * one process and has nothing that is optional; the conformance kit says whether it does the rest right.
 * `least-driver.ts` comes with it.
 */

import { type Driver, type Plugin, TransportError } from "callboard/transport"
import { LeastBoard, leastCapabilities, leastDriver } from "../../kit/driver/least-driver.ts"

export const capabilities = leastCapabilities

/** Set by a test: the fault that the kit must find. */
export const faults = { forgetsAcks: false }

const boards = new Map<string, LeastBoard>()

export const plugin: Plugin = {
  schemes: ["tiny"],
  connect: async (url, options): Promise<Driver> => {
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(options.namespace))
      throw new TransportError("invalid", "a namespace is 1 to 64 of A-Z a-z 0-9 _ -")
    const place = `${url.host} ${options.namespace}`
    const board = boards.get(place) ?? new LeastBoard()
    boards.set(place, board)
    const driver: Driver = { ...leastDriver(board, options), name: "tiny" }
    if (!faults.forgetsAcks) return driver
    return {
      ...driver,
      commit: (commits) =>
        driver.commit(
          commits.map(({ task, ...rest }) => (task?.kind === "ack" || task === undefined ? rest : { ...rest, task })),
        ),
    }
  },
}
