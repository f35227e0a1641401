/** Scopes of a token of the HTTP interface. */
export const SCOPES = ["read", "submit", "admin"] as const

/**
 * `read`: read everything. `submit`: submit tasks. `admin`: everything, also cancel, rerun and delete jobs, and control
 * workers.
 */
export type Scope = (typeof SCOPES)[number]
