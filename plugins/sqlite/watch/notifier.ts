/**
 * Wakes the transports of other processes and threads after a commit that has tasks or news for them. Each transport
 * that listens has a Unix socket of its own in a folder beside the database. A transport that notifies it connects to
 * the socket once, and then writes one byte per notification.
 *
 * A transport opens its socket before it enters itself into the list of listeners, and reads the database after that:
 * so a commit either is seen by that read, or sends a notification. The version of the file is polled twice a second as
 * well (`LOOK_MS` of the database), in case that a socket cannot be created, or was removed.
 *
 * The folder may lie among the temporary files, where every user of the machine can make one of that name, or a link. So
 * nothing is opened or removed in a folder that others than this process's user can write to: then the polls alone tell.
 *
 * Measured on two busy cores of Linux, from the commit of one process to the wake-up of another (medians, in ms), what
 * a notification costs its sender (µs of CPU), and how many of 100 notifications got lost that came within 2 ms of
 * others:
 *
 * |                                            | Bun 1.4 | Deno 2.9 | Node 20 | µs     | lost    |                           |
 * |--------------------------------------------|---------|----------|---------|--------|---------|---------------------------|
 * | a socket per listener                      | 0.2     | 0.4      | 0.4     | 2–6    | 0       |                           |
 * | `fs.watch` on one file that all write to   | 0.1     | 0.4      | 0.3     | 2–6    | 33, Bun | 34 of 200 answers as well |
 * | `fs.watch` on a folder, new names          | 0.2     | 0.7      | 0.8     | 20–48  | 0       | wakes the sender as well  |
 * | UDP on the loopback                        | 0.3     | 0.5      | 0.4     | 17–51  | 0       | not between containers    |
 *
 * Polling `PRAGMA data_version` every 2 ms needs no notification, but takes 1.6 % of a core on an idle file; less
 * often, it is too slow. A listener here takes less than 0.4 % on Bun and on Deno, most of it for the polls of the
 * file.
 */
import { createHash } from "node:crypto"
import { existsSync, lstatSync, mkdirSync, readdirSync, realpathSync, rmdirSync, unlinkSync } from "node:fs"
import { connect, createServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Database, int } from "../database/database.ts"

/** A listener that could not be reached is tried again after this time. */
const RECONNECT_MS = 1_000

/** The longest path of a Unix socket on macOS, in bytes; Linux allows four more. */
const MAX_PATH = 103

/** The longest name of a socket: a number of 48 bits to the base of 36. */
const MAX_NAME = 10
const NAME = new RegExp(`^[0-9a-z]{1,${MAX_NAME}}$`)

/** The rights by which others than the owner may write. */
const WRITE_OF_OTHERS = 0o022

const BYTE = Uint8Array.of(1)

export class Notifier {
  readonly #folder: string | undefined
  readonly #name: string
  readonly #version
  readonly #onNotify: () => void
  #server: Server | undefined
  /** Connections of other transports that notify this one. */
  readonly #clients = new Set<Socket>()
  /** Connections to the sockets of other transports, by the names of these. */
  readonly #connections = new Map<string, Socket>()
  #started: Promise<void> | undefined
  #closed = false
  #seen = -1

  /** `instance` identifies this transport; `onNotify` is called when another transport has committed something. */
  constructor(database: Database, instance: number, onNotify: () => void) {
    this.#folder = folderOf(database.path)
    this.#name = nameOf(instance)
    this.#version = database.prepare("PRAGMA data_version")
    this.#onNotify = onNotify
  }

  /** Wakes these transports. Best effort. */
  notify(instances: Iterable<number>): void {
    for (const instance of instances) {
      const connection = this.#connections.get(nameOf(instance))
      // A new connection is a notification as well.
      if (connection === undefined) this.#connect(nameOf(instance))
      // A byte that was not sent yet will arrive after this commit, and is enough.
      else if (connection.writable && connection.writableLength === 0) connection.write(BYTE)
    }
  }

  /**
   * Resolves once other transports can notify this one; from then on `onNotify` is called. Idempotent, and never fails.
   */
  start(): Promise<void> {
    this.#started ??= this.#start()
    return this.#started
  }

  close(): void {
    this.#closed = true
    this.#stopServer()
    for (const connection of this.#connections.values()) connection.destroy()
    if (this.#folder === undefined || this.#started === undefined || !isOwnFolder(this.#folder)) return
    try {
      rmdirSync(this.#folder)
    } catch {
      // The sockets of other transports are in the folder.
    }
  }

  async #start(): Promise<void> {
    this.#seen = this.#dataVersion()
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
      if (!isOwnFolder(this.#folder)) throw new Error(`${this.#folder} is writable by other users`)
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject)
        server.listen(join(this.#folder ?? "", this.#name), resolve)
        server.unref()
      })
      if (this.#closed) this.#stopServer()
    } catch {
      // The next poll tries again.
      if (this.#server === server) this.#server = undefined
    }
  }

  #stopServer(): void {
    this.#server?.close()
    this.#server = undefined
    for (const client of this.#clients) client.destroy()
    if (this.#folder !== undefined && isOwnFolder(this.#folder)) removeSocket(join(this.#folder, this.#name))
  }

  #accept(client: Socket): void {
    this.#clients.add(client)
    client.unref()
    client.on("data", this.#onNotify)
    client.on("error", ignore)
    client.once("close", () => this.#clients.delete(client))
    this.#onNotify()
  }

  /** Connects to the socket of another transport. A socket whose process was killed is removed. */
  #connect(name: string): void {
    if (this.#folder === undefined || this.#closed || !isOwnFolder(this.#folder)) return
    const path = join(this.#folder, name)
    const connection = connect(path)
    this.#connections.set(name, connection)
    connection.unref()
    // A socket that is never read would not report that the other side has closed it.
    connection.resume()
    connection.on("error", (error) => {
      if ("code" in error && error.code === "ECONNREFUSED") removeSocket(path)
    })
    connection.once("close", () => setTimeout(() => this.#connections.delete(name), RECONNECT_MS).unref())
  }

  /** Tries every socket in the folder, so that those of killed processes are removed. */
  #removeDeadSockets(): void {
    if (this.#folder === undefined || this.#closed || !isOwnFolder(this.#folder)) return
    try {
      for (const name of readdirSync(this.#folder)) {
        if (NAME.test(name) && name !== this.#name && !this.#connections.has(name)) this.#connect(name)
      }
    } catch {
      // The folder does not exist: no transport listens.
    }
  }

  /** Looks whether others can still notify this transport, and whether one of them has committed something. */
  poll(): void {
    if (this.#started === undefined || this.#closed) return
    if (this.#folder !== undefined && !existsSync(join(this.#folder, this.#name))) void this.#listen()
    const version = this.#dataVersion()
    if (version === this.#seen) return
    this.#seen = version
    this.#onNotify()
  }

  /** Changes with every commit of another connection; commits of this one do not count. */
  #dataVersion(): number {
    try {
      return int(this.#version.get() ?? {}, "data_version")
    } catch {
      // The database is closed, or locked for a moment: the next poll reads the version.
      return this.#seen
    }
  }
}

const ignore = (): void => undefined

/** Whether a path is a folder of this process's user, no link to one, in which no other user can make or replace anything. */
const isOwnFolder = (path: string): boolean => {
  try {
    const found = lstatSync(path)
    return found.isDirectory() && (found.mode & WRITE_OF_OTHERS) === 0 && found.uid === process.geteuid?.()
  } catch {
    return false
  }
}

/** Removes what lies under a path in a folder of our own, if it is a socket. */
const removeSocket = (path: string): void => {
  try {
    if (lstatSync(path).isSocket()) unlinkSync(path)
  } catch {
    // It is gone: another transport removes dead sockets, too.
  }
}

const nameOf = (instance: number): string => instance.toString(36)

/**
 * The folder of the sockets, beside the database. If that path is too long for a socket, a folder among the temporary
 * files takes its place.
 */
const folderOf = (path: string | undefined): string | undefined => {
  if (path === undefined) return undefined
  const real = realpathSync(path)
  const beside = `${real}-bells`
  if (Buffer.byteLength(beside) + 1 + MAX_NAME <= MAX_PATH) return beside
  return join(tmpdir(), `callboard-${createHash("sha256").update(real).digest("hex").slice(0, 16)}`)
}
