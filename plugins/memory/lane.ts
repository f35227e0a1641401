/** One queue: its tasks that can be taken, and those that cannot yet. */
import type { Posting } from "../../runtime/transport/driver.ts"
import { Sorted } from "./sorted.ts"

/** One task in a queue. Its content stays bytes: nobody outside can change it. */
export interface Task {
  readonly posting: Omit<Posting, "message" | "frame">
  readonly frame: Uint8Array
  readonly sequence: number
  readonly at: number
  place: "ready" | "scheduled" | "held" | "gone"
  /** Of the last delivery; "" once it was given back. */
  token: string
  deliveries: number
  /** Where it is scheduled or held: when that ends. */
  until: number
}

export class Lane {
  readonly name: string
  readonly ready = new Sorted<Task>((a, b) => b.posting.level - a.posting.level || a.sequence - b.sequence)
  /** Scheduled and held, by when that ends. */
  readonly later = new Sorted<Task>((a, b) => a.until - b.until || a.sequence - b.sequence)

  constructor(name: string) {
    this.name = name
  }

  get isEmpty(): boolean {
    return this.ready.size + this.later.size === 0
  }

  /** Puts a task into its place: ready, or later than that. */
  move(task: Task, place: Task["place"], until = 0): void {
    if (task.place === "ready") this.ready.remove(task)
    else this.later.remove(task)
    task.place = place
    task.until = until
    if (place === "ready") this.ready.add(task)
    else if (place !== "gone") this.later.add(task)
  }

  /** Makes ready what is due, and what was held for longer than its lease. */
  advance(now: number): void {
    for (let task = this.later.first; task !== undefined && task.until <= now; task = this.later.first) {
      this.move(task, "ready")
    }
  }

  /** Tasks that no delivery has, in the order in which they would be taken; those that are not due come last. */
  *waiting(): Iterable<Task> {
    yield* this.ready
    for (const task of this.later) if (task.place === "scheduled") yield task
  }
}
