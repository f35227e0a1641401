/**
 * The answers of the HTTP interface, as far as the page reads them. `test/unit/runtime/page/api.types.ts` compares
 * these types with the schemas of the server.
 */

/** ISO 8601, in UTC. */
export type Time = string

export interface Me {
  readonly name?: string
  readonly scopes: ReadonlyArray<string>
  /** Whether calls need no token. */
  readonly open: boolean
  /** Features of this board; a view hides what the board lacks. */
  readonly features: ReadonlyArray<string>
}

/** Number of jobs by state, of jobs that wait for a retry, and of dead letters. */
export type Counts = Readonly<Record<string, number>>

export interface JobError {
  readonly name: string
  readonly message: string
  readonly reason: string
  readonly traceback?: string
  readonly field?: string
  readonly cause?: { readonly name: string; readonly message: string }
  readonly errors?: ReadonlyArray<{ readonly name: string; readonly message: string }>
}

export interface JobSummary {
  readonly id: string
  readonly task: string
  readonly meth: string | null
  readonly name: string
  readonly queue: string
  readonly priority: number
  readonly front?: true
  readonly state: string
  readonly run: number
  readonly attempts: number
  readonly retries: number
  readonly progress?: { readonly fraction: number; readonly detail?: unknown; readonly at: Time }
  readonly times: {
    readonly submitted: Time
    readonly due?: Time
    readonly expires?: Time
    readonly enqueued?: Time
    readonly started?: Time
    readonly ended?: Time
    readonly keptUntil?: Time
  }
  readonly durations?: { readonly waited?: number; readonly ran?: number; readonly total?: number }
  readonly timeLimit?: { readonly hard?: number | null; readonly soft?: number }
  readonly error?: JobError
  readonly fingerprint?: string
  readonly dead?: string
  readonly worker?: string
  readonly parentId?: string
  readonly rootId?: string
  readonly group?: string
  readonly after?: { readonly ids: ReadonlyArray<string>; readonly waiting?: ReadonlyArray<string> }
  readonly description?: string
  readonly sender?: string
  readonly meta?: Readonly<Record<string, unknown>>
}

/** The durable steps that have ended, in the order of their ends. */
export interface StepPage {
  readonly steps: ReadonlyArray<{
    readonly name: string
    readonly state: string
    readonly at: Time
    /** Duration in seconds, retries included. */
    readonly took: number
    readonly tries: number
    /** The step has a function that reverts it. */
    readonly revert?: true
    /** The result as JSON, cut to a limit. The service hides it where the method hides it. */
    readonly value?: string
    readonly large?: true
    readonly error?: { readonly name: string; readonly message: string }
  }>
  readonly next?: string
}

export interface Transition {
  readonly id: string
  readonly at: Time
  readonly state: string
  readonly attempt?: number
  readonly worker?: string
  readonly reason?: string
  readonly due?: Time
  readonly error?: { readonly name: string; readonly message: string }
}

export interface Job extends JobSummary {
  /** Why the durable steps are being reverted. */
  readonly reverting?: string
  /** Every step that can be reverted was reverted. */
  readonly reverted?: true
  /** Names of the steps that were not reverted. */
  readonly unreverted?: ReadonlyArray<string>
  readonly result?: unknown
  /** The input; for a long one its beginning. Absent unless it was requested. */
  readonly input?: unknown
  readonly headers?: Readonly<Record<string, unknown>>
  readonly transitions: ReadonlyArray<Transition>
}

export interface Attempt {
  readonly run: number
  readonly attempt: number
  readonly worker?: string
  /** When the attempt's task entered its queue. */
  readonly queued?: Time
  readonly started: Time
  readonly ended?: Time
  /** How the attempt ended; absent while it runs. */
  readonly outcome?: string
  readonly error?: { readonly name: string; readonly message: string }
}

/** A job with its last 20 attempts. */
export interface FullJob extends Omit<Job, "attempts"> {
  readonly attempts: ReadonlyArray<Attempt>
}

export interface JobInput {
  readonly value?: unknown
  /** In place of the value: the beginning of a long one, or bytes. */
  readonly raw?: string
  readonly bytes: number
  readonly truncated: boolean
}

/** A count. `gte`: there are at least so many, since counting stopped at a limit. */
export interface Total {
  readonly value: number
  readonly relation: "eq" | "gte"
}

export interface JobList {
  readonly jobs: ReadonlyArray<JobSummary>
  readonly next?: string
  readonly total?: Total
  /** The search reached its budget: `next` goes on from there. */
  readonly partial?: boolean
}

/** The counts and jobs that the page refreshes every two seconds. */
export interface Pulse {
  readonly at: Time
  readonly counts: Counts
  /** Names of counts that were cut at a limit: the true number may be higher. */
  readonly more: ReadonlyArray<string>
  /** Those of the requested jobs that exist. */
  readonly jobs: ReadonlyArray<JobSummary>
}

export interface Why {
  readonly causes: ReadonlyArray<{
    readonly code: string
    readonly message: string
    readonly queue?: string
    readonly until?: Time
    readonly since?: Time
    readonly waiting?: ReadonlyArray<{ readonly id: string; readonly state?: string }>
    readonly running?: ReadonlyArray<{ readonly id: string; readonly name: string; readonly since: Time }>
  }>
}

export interface TreeNode {
  readonly id: string
  readonly name: string
  readonly state: string
  readonly times: { readonly submitted: Time; readonly started?: Time; readonly ended?: Time }
  readonly parentId?: string
  readonly kind: string
  readonly after?: ReadonlyArray<string>
}

export interface Tree {
  readonly nodes: ReadonlyArray<TreeNode>
  /** There are more jobs than this page has. */
  readonly more: boolean
}

/** The result of a bulk action, or of its dry run. */
export interface BulkReport {
  readonly changed: number
  readonly refused: ReadonlyArray<{ readonly id: string; readonly code: string; readonly detail: string }>
  readonly next?: string
  /** Ids of the changed jobs. */
  readonly ids: ReadonlyArray<string>
  /** Absent when no job is left. */
  readonly partial?: PartlyDone
}

export interface PartlyDone {
  readonly done: number
  /** Number of jobs that match still. */
  readonly left: number
  /** There are more than `left`. */
  readonly more?: true
}

export interface DryRun {
  readonly matches: Total
  /** Number of examined jobs that would be changed. */
  readonly will: number
  /** Number of examined jobs that would not be changed, by reason. */
  readonly refused: Readonly<Record<string, number>>
  /** Number of jobs that have changed their state since, and are left alone. */
  readonly changed: number
  readonly by: { readonly task: Readonly<Record<string, number>>; readonly queue: Readonly<Record<string, number>> }
  readonly warnings: ReadonlyArray<{ readonly code: string; readonly text: string }>
  readonly sample: ReadonlyArray<string>
  /** Only jobs that were submitted by then are meant. */
  readonly until: Time
}

export interface Cause {
  readonly fingerprint: string
  readonly name: string
  /** The message with placeholders for what differs between jobs: `order <n> is not there`. */
  readonly template: string
  readonly reason: string
  readonly tasks: ReadonlyArray<string>
  readonly count: number
  readonly jobs: { readonly failed: number; readonly retrying: number; readonly dead: number }
  readonly first: Time
  readonly last: Time
  readonly status: string
  readonly frame?: string
  readonly spark: ReadonlyArray<number>
}

export interface ErrorList {
  readonly errors: ReadonlyArray<Cause>
  readonly next?: string
  readonly partial?: boolean
}

type Shares = ReadonlyArray<{ readonly key: string; readonly count: number }>

export interface ErrorDetails extends Cause {
  readonly ids: ReadonlyArray<string>
  readonly by: { readonly version: Shares; readonly worker: Shares; readonly attempt: Shares; readonly queue: Shares }
  readonly traceback?: string
}

export interface Finding {
  readonly code: string
  readonly severity: "bad" | "warn"
  readonly title: string
  readonly detail: string
  readonly since: Time
  /** Path of the page that shows more. */
  readonly href: string
  readonly action?: { readonly label: string; readonly method: string; readonly href: string }
}

export interface Stats {
  readonly at: Time
  readonly counts: Counts
  readonly more: ReadonlyArray<string>
  readonly ended: {
    readonly succeeded: number
    readonly failed: number
    readonly cancelled: number
    readonly expired: number
  }
  readonly perMinute?: { readonly in: number; readonly started: number; readonly ended: number }
  readonly wait?: { readonly p50: number; readonly p95: number; readonly p99: number }
  readonly handlers: { readonly busy: number; readonly all: number }
  readonly workers: { readonly alive: number; readonly lost: number }
  /** The findings in one sentence. */
  readonly verdict: string
  readonly findings: ReadonlyArray<Finding>
  readonly partial?: boolean
}

export interface Series {
  readonly from: Time
  readonly to: Time
  /** Length of the time that a point stands for, in seconds. */
  readonly step: number
  readonly series: ReadonlyArray<{ readonly key: string; readonly points: ReadonlyArray<number | null> }>
  readonly marks: ReadonlyArray<{ readonly at: Time; readonly kind: string; readonly text: string }>
  readonly partial?: boolean
}

interface Percentiles {
  readonly p50: number
  readonly p95: number
  readonly p99: number
}

export interface TaskStats {
  readonly task: string
  readonly queue: string
  readonly perMinute: number
  readonly failed: number
  readonly failRate: number
  readonly wait?: Percentiles
  readonly run?: Percentiles
  /** Number of attempts that ended, for each thirtieth of the range. */
  readonly spark: ReadonlyArray<number>
}

export interface TaskList {
  readonly tasks: ReadonlyArray<TaskStats>
  readonly next?: string
  readonly partial?: boolean
}
