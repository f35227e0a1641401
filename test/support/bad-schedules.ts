/** Schedules that are refused, with the same code and message over code, HTTP and the command line. */

export interface BadSchedule {
  readonly what: string
  readonly name?: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly code: string
  /** Absent where the fault is in no field. */
  readonly field?: string
  readonly message: string
}

const task = "work.echo"

export const badSchedules: ReadonlyArray<BadSchedule> = [
  {
    what: "a cron text that is never due",
    fields: { task, cron: "0 0 30 2 *" },
    code: "invalid-input",
    field: "cron",
    message: 'cron: "0 0 30 2 *" is never due, because no such day exists',
  },
  {
    what: "no cron text",
    fields: { task, cron: "every day" },
    code: "invalid-input",
    field: "cron",
    message:
      'cron: "every day" must be five fields (minute, hour, day, month, weekday), or six with the second first, or a name such as @daily',
  },
  {
    what: "a minute that does not exist",
    fields: { task, cron: "60 * * * *" },
    code: "invalid-input",
    field: "cron",
    message: 'cron: "60 * * * *" is not a cron expression: Invalid value for minute: 60',
  },
  {
    what: "a zone that does not exist",
    fields: { task, cron: "0 7 * * *", timeZone: "Mars/Olympus" },
    code: "invalid-input",
    field: "timeZone",
    message: 'timeZone: "Mars/Olympus" is not a time zone, such as Europe/Berlin',
  },
  {
    what: "a zone without a cron text",
    fields: { task, every: 60, timeZone: "Europe/Berlin" },
    code: "invalid-input",
    field: "timeZone",
    message: "timeZone: requires `cron`",
  },
  {
    what: "an interval of 0",
    fields: { task, every: 0 },
    code: "invalid-input",
    field: "every",
    message: "every: must be at least 1 second",
  },
  {
    what: "a negative interval",
    fields: { task, every: -5 },
    code: "invalid-input",
    field: "every",
    message:
      'every: -5 is not a duration: it is negative. Use a number of seconds, or text such as "10s", "5 minutes" or "500 ms".',
  },
  {
    what: "a moment that has passed",
    fields: { task, at: "2020-01-01T00:00:00Z" },
    code: "invalid-input",
    field: "at",
    message: "at: has already passed",
  },
  {
    what: "neither cron nor every nor at",
    fields: { task },
    code: "invalid-input",
    field: "cron",
    message: "cron: set exactly one of `cron`, `every` and `at`",
  },
  {
    what: "both cron and every",
    fields: { task, cron: "* * * * *", every: 60 },
    code: "invalid-input",
    field: "every",
    message: "every: set exactly one of `cron`, `every` and `at`",
  },
  {
    what: "a rule that does not exist",
    fields: { task, every: 60, overlap: "kill" },
    code: "invalid-input",
    field: "overlap",
    message: 'overlap: must be "allow" or "skip" or "queue"',
  },
  {
    what: "an unknown field",
    fields: { task, every: 60, catchup: "all" },
    code: "unknown-field",
    field: "catchup",
    message: "catchup is not an option of a schedule (did you mean catchUp?)",
  },
  {
    what: "an id, which each job has by itself",
    fields: { task, every: 60, id: "mine" },
    code: "unknown-field",
    field: "id",
    message: "id is not an option of a schedule",
  },
  {
    what: "an end that is a moment",
    fields: { task, every: 60, expires: "2031-01-01T00:00:00Z" },
    code: "invalid-input",
    field: "expires",
    message: "expires: must be a duration, because it applies to each job of the schedule separately",
  },
  {
    what: "a callback with an id",
    fields: { task, every: 60, callbacks: [{ task, id: "mine" }] },
    code: "invalid-input",
    field: "callbacks[0].id",
    message: "callbacks[0].id: is not allowed: only the first job of the schedule could have this id",
  },
  {
    what: "a chain with a group in it",
    fields: { task, every: 60, chain: [{ task, chord: [{ task }] }] },
    code: "invalid-input",
    field: "chain[0].chord",
    message: "chain[0].chord: is not allowed here: submit it from the task of the schedule",
  },
  {
    what: "a bad queue",
    fields: { task, every: 60, queue: "no queue" },
    code: "invalid-input",
    field: "queue",
    message:
      'queue: "no queue" cannot be a name of a queue: use at most 128 letters, digits, "_", ".", ":", "@" or "-", starting with a letter, a digit or "_".',
  },
  {
    what: "a bad name",
    name: "no name",
    fields: { task, every: 60 },
    code: "invalid-input",
    field: "name",
    message: 'name: must be 1 to 200 letters, digits, "_", ".", "$" or "-", and must not start with "." or "-"',
  },
]
