/** Helpers of the end-to-end tests: services in processes of their own, clients and ledgers. All of them end with their board. */
import { existsSync, readFileSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { type Client, connect } from "callboard"
import { bundled } from "../support/servers/bundle.ts"
import { type Spawned, spawnScript } from "../support/servers/process.ts"
import type { SharedBoard } from "./boards.ts"

/** Path of the program of a service, bundled. */
export const serviceProgram = (): string => bundled(fileURLToPath(new URL("service.ts", import.meta.url)))

/** Longest wait for another process, in milliseconds. */
export const DEADLINE = 60_000

/** The board that a service works on and ends with. */
type Place = Pick<SharedBoard, "url" | "keep">

/** Starts a service with a worker in a process of its own, and waits until it is ready. `lease`: in seconds. */
export const startService = async (board: Place, lease: number, options: object = {}): Promise<Spawned> => {
  const service = board.keep(spawnScript(serviceProgram(), [board.url(lease), JSON.stringify(options)]))
  await service.waitForLine(/^ready/, DEADLINE)
  return service
}

export const clientOf = async (board: Place, lease = 30): Promise<Client> => board.keep(await connect(board.url(lease)))

/** Freezes a process while it does not write: a process that is frozen in a write keeps the lock of an SQLite file. */
export const freeze = async (service: Spawned, client: Client): Promise<void> => {
  for (let isFree = false; !isFree; ) {
    service.kill("SIGSTOP")
    const written = client.connection.store.write([{ key: "probe", value: new Uint8Array(1), ttl: 60_000 }])
    isFree = await Promise.race([written.then(() => true), sleep(1_000, false)])
    if (!isFree) service.kill("SIGCONT")
    await written
  }
}

/** The complete lines of a ledger, without one that is just being written; none if there is no such file. */
export const linesOf = (file: string): ReadonlyArray<string> =>
  existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : []
