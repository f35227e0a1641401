/** What end-to-end tests begin with: services in processes of their own, clients, ledgers. All of it ends with its board. */
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { type Client, connect } from "callboard"
import { bundled } from "../support/servers/bundle.ts"
import { type Spawned, spawnScript } from "../support/servers/process.ts"
import type { SharedBoard } from "./boards.ts"

/** The program that they run. */
export const serviceProgram = (): string => bundled(fileURLToPath(new URL("service.ts", import.meta.url)))

/** Longest wait for what another process does, in milliseconds. */
export const DEADLINE = 60_000

/** Where they work, and what they end with. */
type Place = Pick<SharedBoard, "url" | "keep">

/** A service in a process of its own, which consumes; `lease` in seconds. */
export const startService = async (board: Place, lease: number, options: object = {}): Promise<Spawned> => {
  const service = board.keep(spawnScript(serviceProgram(), [board.url(lease), JSON.stringify(options)]))
  await service.waitForLine(/^ready/, DEADLINE)
  return service
}

export const clientOf = async (board: Place, lease = 30): Promise<Client> => board.keep(await connect(board.url(lease)))

/** The whole lines of a ledger: what is being written is no line yet. */
export const linesOf = (file: string): ReadonlyArray<string> =>
  existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : []
