/** What end-to-end tests begin with: services in processes of their own, clients, ledgers. All of it ends with its board. */
import { existsSync, readFileSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
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

/** Stops a process outside of a write: within one it keeps the lock of an SQLite file, and then no other process can do anything. */
export const freeze = async (service: Spawned, client: Client): Promise<void> => {
  for (let isFree = false; !isFree; ) {
    service.kill("SIGSTOP")
    const written = client.connection.store.write([{ key: "probe", value: new Uint8Array(1), ttl: 60_000 }])
    isFree = await Promise.race([written.then(() => true), sleep(1_000, false)])
    if (!isFree) service.kill("SIGCONT")
    await written
  }
}

/** The whole lines of a ledger: what is being written is no line yet. */
export const linesOf = (file: string): ReadonlyArray<string> =>
  existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : []
