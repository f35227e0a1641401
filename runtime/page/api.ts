/**
 * What the HTTP interface answers, as far as the page reads it. `test/unit/runtime/page/api.types.ts` compares these forms with
 * the schemas of the server.
 */

/** ISO 8601, in UTC. */
export type Time = string

export interface Me {
  readonly name?: string
  readonly scopes: ReadonlyArray<string>
  /** No token is needed here. */
  readonly open: boolean
  /** What this board has: a view hides what is lacking. */
  readonly features: ReadonlyArray<string>
}

/** Jobs by state, and those that wait for another attempt, and dead letters. */
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
  readonly result?: unknown
  readonly input?: unknown
  readonly headers?: Readonly<Record<string, unknown>>
  readonly transitions: ReadonlyArray<Transition>
}

/** A number that was counted up to a bound: `gte` where there are at least so many. */
export interface Total {
  readonly value: number
  readonly relation: "eq" | "gte"
}

export interface JobList {
  readonly jobs: ReadonlyArray<JobSummary>
  readonly next?: string
  readonly total?: Total
  /** The transport was asked for no longer than its budget: `next` goes on from there. */
  readonly partial?: boolean
}

/** What changes while one looks. */
export interface Pulse {
  readonly at: Time
  readonly counts: Counts
  /** Those of the jobs that were asked for. */
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
  /** There are more jobs than these. */
  readonly more: boolean
}

/** What a decision about many has done, or, as a dry run, would do. */
export interface BulkReport {
  readonly changed: number
  readonly refused: ReadonlyArray<{ readonly id: string; readonly code: string; readonly detail: string }>
  readonly more: boolean
  readonly next?: string
  /** Those that were changed. */
  readonly ids?: ReadonlyArray<string>
}

export interface DryRun {
  readonly matches: Total
  /** How many of those that were looked at will be changed. */
  readonly will: number
  /** How many will not, by the reason. */
  readonly refused: Readonly<Record<string, number>>
  readonly warnings: ReadonlyArray<{ readonly code: string; readonly text: string }>
  readonly sample: ReadonlyArray<string>
  /** Only jobs until then are meant. */
  readonly until: Time
}
