/** What end-to-end tests begin with: services in processes of their own, clients, ledgers. All of it ends with the test. */
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { type Client, connect } from "callboard"
import { bundled } from "../support/servers/bundle.ts"
import { keep } from "../support/servers/keep.ts"
import { type Spawned, spawnScript } from "../support/servers/process.ts"
import type { SharedBoard } from "./boards.ts"

export { keep } from "../support/servers/keep.ts"

/** The program that they run. */
export const serviceProgram = (): string => bundled(fileURLToPath(new URL("service.ts", import.meta.url)))

/** Longest wait for what another process does, in milliseconds. */
export const DEADLINE = 60_000

/** A service in a process of its own, which consumes; `lease` in seconds. */
export const startService = async (board: SharedBoard, lease: number, options: object = {}): Promise<Spawned> => {
  const service = keep(spawnScript(serviceProgram(), [board.url(lease), JSON.stringify(options)]))
  await service.waitForLine(/^ready/, DEADLINE)
  return service
}

export const clientOf = async (board: SharedBoard, lease = 30): Promise<Client> => keep(await connect(board.url(lease)))

/** The whole lines of a ledger: what is being written is no line yet. */
export const linesOf = (file: string): ReadonlyArray<string> =>
  existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : []
