/**
 * Wakes the transports of other processes, and of other threads, after a commit that brings them something. Each
 * transport that listens has a Unix socket of its own in a folder beside the database. A transport that rings connects to
 * it once, and then writes one byte per ring.
 *
 * A transport listens at its socket before it makes itself known in the database, and looks at the database after that:
 * so a commit either is seen by that look, or rings. The file is looked at twice a second as well, in case that a socket
 * cannot be had, or was removed.
 *
 * Measured on two busy cores of Linux, from the commit of one process to the wake-up of another (medians, in ms), what a
 * ring costs the one that rings (µs of CPU), and how many of 100 rings got lost that came within 2 ms of others:
 *
 * |                                            | Bun 1.4 | Deno 2.9 | Node 20 | µs     | lost    |                           |
 * |--------------------------------------------|---------|----------|---------|--------|---------|---------------------------|
 * | a socket per listener                      | 0.2     | 0.4      | 0.4     | 2–6    | 0       |                           |
 * | `fs.watch` on one file that all write to   | 0.1     | 0.4      | 0.3     | 2–6    | 33, Bun | 34 of 200 answers as well |
 * | `fs.watch` on a folder, new names          | 0.2     | 0.7      | 0.8     | 20–48  | 0       | wakes the one that rings  |
 * | UDP on the loopback                        | 0.3     | 0.5      | 0.4     | 17–51  | 0       | not between containers    |
 *
 * Looking at `PRAGMA data_version` every 2 ms needs no ring, but takes 1.6 % of a core on an idle board; less often, it
 * is too slow. A listener here takes less than 0.4 % on Bun and on Deno, most of it for the looks at the file.
 */
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, realpathSync, rmdirSync, rmSync } from "node:fs"
import { connect, createServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Database } from "../database/database.ts"
import { int } from "../database/row.ts"

const POLL_MS = 500

/** A listener that cannot be reached is tried again after this time. */
const RECONNECT_MS = 1_000

/** The longest path of a socket on macOS; Linux allows four bytes more. */
const MAX_PATH = 103

/** The longest name of a socket: 48 bits to the base of 36. */
const MAX_NAME = 10

const BYTE = Uint8Array.of(1)

export class Notifier {
  readonly #folder: string | undefined
  readonly #name: string
  readonly #version
  readonly #onNotify: () => void
  #server: Server | undefined
  /** Connections of those that ring here. */
  readonly #clients = new Set<Socket>()
  /** Connections to other listeners, by the names of their sockets. */
  readonly #connections = new Map<string, Socket>()
  #timer: ReturnType<typeof setInterval> | undefined
  #started: Promise<void> | undefined
  #closed = false
  #seen = -1

  /** `instance` tells this transport from others; `onNotify` is called when another one has committed something. */
  constructor(database: Database, instance: number, onNotify: () => void) {
    this.#folder = folderOf(database.path)
    this.#name = nameOf(instance)
    this.#version = database.prepare("PRAGMA data_version")
    this.#onNotify = onNotify
  }

  /** Wakes other transports. Best effort. */
  notify(instances: Iterable<number>): void {
    for (const instance of instances) {
      const connection = this.#connections.get(nameOf(instance))
      // Connecting rings as well.
      if (connection === undefined) this.#connect(nameOf(instance))
      // A byte that is still on its way will arrive after this commit.
      else if (connection.writable && connection.writableLength === 0) connection.write(BYTE)
    }
  }

  /** Resolves once others can ring; from then on `onNotify` is called. Idempotent, and never fails. */
  start(): Promise<void> {
    this.#started ??= this.#start()
    return this.#started
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#timer)
    this.#stopServer()
    for (const connection of this.#connections.values()) connection.destroy()
    if (this.#folder === undefined || this.#started === undefined) return
    try {
      rmdirSync(this.#folder)
    } catch {
      // Others listen there.
    }
  }

  async #start(): Promise<void> {
    this.#seen = this.#dataVersion()
    this.#timer = setInterval(() => this.#poll(), POLL_MS)
    // A `take` that waits keeps the process alive by its own timer.
    this.#timer.unref()
    await this.#listen()
    this.#removeDeadSockets()
  }

  async #listen(): Promise<void> {
    if (this.#folder === undefined || this.#closed) return
    this.#stopServer()
    const server = createServer((client) => this.#accept(client))
    this.#server = server
    try {
      if (!existsSync(this.#folder)) mkdirSync(this.#folder, { mode: 0o700 })
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject)
        server.listen(join(this.#folder ?? "", this.#name), resolve)
        server.unref()
      })
      if (this.#closed) this.#stopServer()
    } catch {
      // The next look at the database tries again.
      if (this.#server === server) this.#server = undefined
    }
  }

  #stopServer(): void {
    this.#server?.close()
    this.#server = undefined
    for (const client of this.#clients) client.destroy()
    if (this.#folder !== undefined) rmSync(join(this.#folder, this.#name), { force: true })
  }

  #accept(client: Socket): void {
    this.#clients.add(client)
    client.unref()
    client.on("data", this.#onNotify)
    client.on("error", ignore)
    client.once("close", () => this.#clients.delete(client))
    this.#onNotify()
  }

  /** Connects to a listener. The socket of one whose process was killed is removed. */
  #connect(name: string): void {
    if (this.#folder === undefined || this.#closed) return
    const path = join(this.#folder, name)
    const connection = connect(path)
    this.#connections.set(name, connection)
    connection.unref()
    // Reads nothing, and so notices the end.
    connection.resume()
    connection.on("error", (error) => {
      if ("code" in error && error.code === "ECONNREFUSED") rmSync(path, { force: true })
    })
    connection.once("close", () => setTimeout(() => this.#connections.delete(name), RECONNECT_MS).unref())
  }

  /** Finds the sockets of those that were killed. */
  #removeDeadSockets(): void {
    if (this.#folder === undefined || this.#closed) return
    try {
      for (const name of readdirSync(this.#folder)) {
        if (name !== this.#name && !this.#connections.has(name)) this.#connect(name)
      }
    } catch {
      // There is no such folder: nobody listens.
    }
  }

  #poll(): void {
    if (this.#folder !== undefined && !existsSync(join(this.#folder, this.#name))) void this.#listen()
    const version = this.#dataVersion()
    if (version === this.#seen) return
    this.#seen = version
    this.#onNotify()
  }

  /** Changes whenever another connection has committed; this one's own commits do not count. */
  #dataVersion(): number {
    try {
      return int(this.#version.get() ?? {}, "data_version")
    } catch {
      // Closed, or locked for a moment: the next look will tell.
      return this.#seen
    }
  }
}

const ignore = (): void => undefined

const nameOf = (instance: number): string => instance.toString(36)

/** The folder of the sockets. One whose path is too long for a socket has a stand-in among the temporary files. */
const folderOf = (path: string | undefined): string | undefined => {
  if (path === undefined) return undefined
  const real = realpathSync(path)
  const beside = `${real}-bells`
  if (Buffer.byteLength(beside) + 1 + MAX_NAME <= MAX_PATH) return beside
  return join(tmpdir(), `callboard-${createHash("sha256").update(real).digest("hex").slice(0, 16)}`)
}
