/** One queue: its tasks by place, and when those that are not ready become so. */
import { FRONT_LEVEL } from "../../runtime/protocol/message.ts"
import { Heap } from "./heap.ts"
import type { Alarm, Task } from "./state.ts"

/** Whether a task is in somebody's hands. A lease that has lapsed may not have been noticed yet. */
export const isHeld = (task: Task, now: number): boolean => task.place === "held" && task.until > now

export class Lane {
  readonly name: string
  readonly count = { new: 0, ready: 0, scheduled: 0, held: 0, gone: 0 }
  readonly #levels = Array.from(
    { length: FRONT_LEVEL + 1 },
    () =>
      new Heap<Task>(
        (a, b) => a.sequence < b.sequence,
        (task) => task.place === "ready",
      ),
  )
  readonly #later = new Heap<Alarm>(
    (a, b) => a.at < b.at,
    (alarm) => alarm.task.alarm === alarm,
  )

  constructor(name: string) {
    this.name = name
  }

  ready(task: Task): void {
    this.#move(task, "ready")
    this.#levels[task.posting.level]?.push(task)
  }

  schedule(task: Task, at: number): void {
    this.#move(task, "scheduled")
    this.#wake(task, at)
  }

  remove(task: Task): void {
    this.#move(task, "gone")
  }

  /** Hands the next ready task over. */
  take(now: number, lease: number): Task | undefined {
    for (let level = FRONT_LEVEL; level >= 0; level--) {
      const task = this.#levels[level]?.pop()
      if (task === undefined) continue
      this.#place(task, "held")
      task.deliveries++
      task.lease = lease
      task.until = now + lease
      this.#wake(task, task.until)
      return task
    }
    return undefined
  }

  /** Makes ready what is due and what was held too long. */
  advance(now: number): void {
    for (let alarm = this.#later.peek(); alarm !== undefined && alarm.at <= now; alarm = this.#later.peek()) {
      this.#later.pop()
      const { task } = alarm
      task.alarm = undefined
      // A lease that was extended kept its old alarm.
      if (task.place === "held" && task.until > now) this.#wake(task, task.until)
      else this.ready(task)
    }
  }

  /** When there may be something new to take. */
  next(): number | undefined {
    return this.#later.peek()?.at
  }

  get empty(): boolean {
    return this.count.ready + this.count.scheduled + this.count.held === 0
  }

  /** When the oldest ready task was stored. */
  oldest(): number | undefined {
    const firsts = this.#levels.flatMap((level) => level.peek()?.storedAt ?? [])
    return firsts.length === 0 ? undefined : Math.min(...firsts)
  }

  /** Tasks in nobody's hands, in the order in which they would be taken; those that are not ready come last. */
  *waiting(): Iterable<Task> {
    for (const level of [...this.#levels].reverse()) yield* level.inOrder()
    for (const { task } of this.#later.living()) if (task.place === "scheduled") yield task
  }

  #wake(task: Task, at: number): void {
    task.alarm = { at, task }
    this.#later.push(task.alarm)
  }

  #place(task: Task, place: Task["place"]): void {
    this.count[task.place]--
    this.count[place]++
    task.place = place
  }

  #move(task: Task, place: Task["place"]): void {
    const { alarm, place: before } = task
    task.alarm = undefined
    this.#place(task, place)
    if (alarm !== undefined) this.#later.wither()
    if (before === "ready") this.#levels[task.posting.level]?.wither()
  }
}
