/** Boards that tell what has been written to them: counters that only grow, of which the bench takes the difference. */
import { readFileSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { setTimeout as sleep } from "node:timers/promises"
import { connect } from "nats"
import pg from "pg"
import { type NatsServer, startNats } from "../../support/servers/nats.ts"
import { startPostgres } from "../../support/servers/postgres.ts"
import { eventually, freePort } from "../../support/servers/process.ts"
import type { Figures } from "../report/figures.ts"
import { type Board, type BoardKind, sqlite } from "./boards.ts"
import { fileIn } from "./contenders.ts"
import { childrenOf } from "./processor-time.ts"

export interface MeteredBoard extends Omit<Board, "broker"> {
  readonly brokers: ReadonlyArray<number>
  /**
   * What has been done so far: `writes` (transactions that wrote, or messages stored by each server), `kept` (bytes that
   * tasks and records take up), `disk` (bytes that processes have caused to be written).
   */
  meter(program: number): Promise<Figures>
}

export interface MeteredKind extends Omit<BoardKind, "open"> {
  open(): Promise<MeteredBoard>
}

/** Bytes that a process and its children have caused to be written to a disk. */
const diskBytes = (pid: number): number => {
  const own = Number(/^write_bytes: (\d+)$/m.exec(readFileSync(`/proc/${pid}/io`, "utf8"))?.[1])
  return childrenOf(pid).reduce((sum, child) => sum + diskBytes(child), own)
}

const diskBytesOf = (pids: ReadonlyArray<number>): number => pids.reduce((sum, pid) => sum + diskBytes(pid), 0)

// ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────

export const memoryMetered: MeteredKind = {
  name: "memory",
  durability: "none",
  open: async () => ({
    url: "memory:",
    brokers: [],
    meter: async () => ({}),
    [Symbol.asyncDispose]: async () => {},
  }),
}

// ── SQLite ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Place of the number of write transactions in the index of the log, which all connections share (`WalIndexHdr.iChange`). */
const TRANSACTIONS_AT = 8

export const sqliteMetered: MeteredKind = {
  ...sqlite,
  open: async () => {
    const board = await sqlite.open()
    const path = fileIn(board)
    return {
      ...board,
      brokers: [],
      meter: async (program) => {
        using database = new DatabaseSync(path, { readOnly: true })
        const number = (name: string) => Number(database.prepare(`PRAGMA ${name}`).get()?.[name])
        return {
          writes: readFileSync(`${path}-shm`).readUInt32LE(TRANSACTIONS_AT),
          kept: (number("page_count") - number("freelist_count")) * number("page_size"),
          disk: diskBytes(program),
        }
      },
    }
  },
}

// ── NATS ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

const natsBoard = async (servers: ReadonlyArray<NatsServer>, query: string): Promise<MeteredBoard> => {
  const hosts = servers.map(({ port }) => `127.0.0.1:${port}`)
  const brokers = servers.map(({ pid }) => pid)
  // A cluster answers once it has a leader.
  const connection = await eventually(async () => {
    const connected = await connect({ servers: hosts })
    try {
      const manager = await connected.jetstreamManager()
      await manager.getAccountInfo()
      return connected
    } catch (error) {
      await connected.close()
      throw error
    }
  })
  return {
    url: `nats://${hosts.join(",")}${query}`,
    brokers,
    meter: async () => {
      const manager = await connection.jetstreamManager()
      const streams = await manager.streams.list().next()
      const sum = (of: "last_seq" | "bytes") => streams.reduce((total, { state }) => total + state[of], 0)
      return { writes: sum("last_seq"), kept: sum("bytes"), disk: diskBytesOf(brokers) }
    },
    [Symbol.asyncDispose]: async () => {
      await connection.close()
      await Promise.all(servers.map((server) => server.stop()))
    },
  }
}

export const natsMetered = ({
  sync,
  query = "",
}: {
  readonly sync?: string
  readonly query?: string
}): MeteredKind => ({
  name: "nats",
  durability: sync === "always" ? "on the disk (fsync)" : "in the server's file, fsync every 2 min",
  open: async () => natsBoard([await startNats(sync === undefined ? {} : { syncInterval: sync })], query),
})

/** Three servers on this machine, which share its cores with each other and with the client. */
export const clusterMetered: MeteredKind = {
  name: "three nats",
  durability: "in the files of two of three servers",
  open: async () => {
    const ports = await Promise.all(Array.from({ length: 3 }, freePort))
    const routes = ports.map((port) => `"nats://127.0.0.1:${port}"`).join(", ")
    const servers = await Promise.all(
      ports.map((port, at) => {
        const cluster = `cluster { name: bench, listen: "127.0.0.1:${port}", routes: [${routes}] }`
        return startNats({ config: `server_name: n${at + 1}\n${cluster}` })
      }),
    )
    return natsBoard(servers, "?replicas=3")
  },
}

// ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** How long a server may keep to itself what its connections have counted. */
const COUNTING_MS = 1_500

const COUNTERS = `SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS writes,
  pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::text AS disk, pg_database_size(current_database())::text AS kept,
  (SELECT xact_commit::text FROM pg_stat_database WHERE datname = current_database()) AS transactions`

export const postgresMetered: MeteredKind = {
  name: "postgres",
  durability: "on the disk (fsync)",
  open: async () => {
    const server = await startPostgres()
    return {
      url: server.url,
      brokers: [server.pid],
      // Bytes on the disk are those of the log: what a checkpoint writes to the tables comes later.
      meter: async () => {
        const client = new pg.Client({ connectionString: server.url })
        await client.connect()
        await sleep(COUNTING_MS)
        const { rows } = await client.query<Readonly<Record<string, string>>>(COUNTERS)
        await client.end()
        return Object.fromEntries(Object.entries(rows[0] ?? {}).map(([key, value]) => [key, Number(value)]))
      },
      [Symbol.asyncDispose]: () => server.stop(),
    }
  },
}
