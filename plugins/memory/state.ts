/** What is kept in memory: jobs and their tasks, which know each other. */
import type { JobRecord, Posting, Revision } from "../../runtime/transport/mod.ts"

export interface Job {
  readonly id: string
  /** Of its first appearance: what lists are ordered by. */
  readonly sequence: number
  /** Publish keys seen, for as long as the job is known. */
  readonly keys: string[]
  /** In queues, oldest first; hardly ever more than one. */
  tasks: ReadonlyArray<Task>
  /** Whether any delivery was ever handed over. */
  delivered: boolean
  stored: Stored | undefined
  /** What the current delivery last said about its run. */
  reported: Stored | undefined
}

/** A record as text, so that nobody outside can change it, and what fences and clocks look at. */
export interface Stored {
  readonly text: string
  readonly revision: Revision
  readonly state: JobRecord["state"]
  readonly run: number
  readonly fence: string
  readonly retries: number
  readonly acked: boolean
  readonly successor: string | undefined
  readonly tombstone: boolean
  /** When the record becomes a tombstone, or the tombstone goes. */
  readonly until: number
}

/** One task in a queue. The message stays bytes: nobody outside can change it, and its size is known. */
export interface Task {
  readonly posting: Omit<Posting, "message">
  readonly frame: Uint8Array
  readonly sequence: number
  readonly storedAt: number
  /** Absent: nothing that could be read. */
  readonly job: Job | undefined
  place: "new" | "ready" | "scheduled" | "held" | "gone"
  deliveries: number
  /** Of the last delivery. */
  fence: string
  lease: number
  /** When a held task's lease lapses. */
  until: number
  alarm: Alarm | undefined
}

export interface Alarm {
  readonly at: number
  readonly task: Task
}
