/** What a token of the HTTP interface may allow. */
export const SCOPES = ["read", "submit", "admin"] as const

/** `read`: look at everything. `submit`: post tasks. `admin`: everything, also decide about jobs. */
export type Scope = (typeof SCOPES)[number]
