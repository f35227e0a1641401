/** What a board holds while it is connected. */
import type { Connection } from "../connection/connection.ts"
import type { EarlierClaim } from "../protocol/board.ts"
import { Candidates } from "./candidates.ts"
import { BoardEntries } from "./entries.ts"
import type { Handles } from "./handles.ts"
import { BoardNotifications, type Listeners } from "./notifications.ts"
import { Places } from "./places.ts"
import { BoardReader } from "./reading.ts"
import { Renewals } from "./renewals.ts"
import type { BoardJobView } from "./view.ts"

/** The parts of a board that exist also while it is not connected. */
export interface BoardParts {
  readonly name: string
  readonly leaseMs: number
  readonly reclaimAfterMs: number
  readonly onTakeover: ((job: BoardJobView, lost: EarlierClaim) => unknown) | undefined
  readonly handles: Handles
  readonly listeners: Listeners
}

export class Session {
  readonly board: BoardParts
  readonly connection: Connection
  readonly entries: BoardEntries
  readonly places: Places
  readonly reader: BoardReader
  readonly candidates: Candidates
  readonly notifications: BoardNotifications
  readonly renewals: Renewals
  readonly #stop = new AbortController()
  readonly #close: () => Promise<void>

  /** `close` gives the connection back. */
  constructor(board: BoardParts, connection: Connection, close: () => Promise<void>) {
    this.board = board
    this.connection = connection
    this.entries = new BoardEntries(connection.store, board.name)
    this.places = new Places(this.entries)
    this.reader = new BoardReader(this.entries, (key) => board.listeners.unreadable(key))
    this.candidates = new Candidates(this.reader, connection.store, board.reclaimAfterMs)
    this.notifications = new BoardNotifications(connection, board.name, this.#stop.signal)
    this.renewals = new Renewals(board.leaseMs)
    this.#close = close
  }

  /** Listens to what all processes announce about this board. Calling it again does nothing. */
  listen(): Promise<void> {
    const { listeners } = this.board
    return this.notifications.listen((announcements, isOwn) => {
      if (isOwn && !listeners.isUsed) return
      for (const { sequence, ...each } of announcements()) {
        if (each.event === "POSTED" && !isOwn) {
          this.reader.heard(each.id)
          this.candidates.heard(each.priority, sequence)
        }
        listeners.notify(each)
      }
    })
  }

  /** Ends the calls that wait and all renewals, and gives the connection back. */
  async close(): Promise<void> {
    await this.notifications.flush()
    this.#stop.abort()
    await this.renewals.close()
    await this.#close()
  }
}

/** Runs an operation over the connection. Fails with `not-connected`, and with what the store fails with. */
export type InSession = <A>(work: (session: Session) => Promise<A>) => Promise<A>
