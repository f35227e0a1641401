/**
 * The transport within one process, whose jobs are lost when it ends. Tests use it, and plugin authors can read it as the
 * reference. URLs with the same name (`memory:`, `memory://name`) and namespace share one board.
 */
import { checkConnectOptions, checkUrlOptions } from "../../runtime/transport/checks.ts"
import type { Plugin } from "../../runtime/transport/driver.ts"
import { capabilities, MemoryBoard, MemoryDriver } from "./driver.ts"

export { capabilities }

const boards = new Map<string, MemoryBoard>()

/** The board of a URL and namespace, for tests that bypass the contract. */
export const memoryBoardOf = (url: URL, namespace: string): MemoryBoard => {
  const key = `${url.host}${url.pathname} ${namespace}`
  const board = boards.get(key) ?? new MemoryBoard()
  boards.set(key, board)
  return board
}

export const plugin: Plugin = {
  schemes: ["memory"],
  connect: async (url, options) => {
    checkConnectOptions(options)
    checkUrlOptions(url)
    return new MemoryDriver(memoryBoardOf(url, options.namespace), options)
  },
}

export default plugin
