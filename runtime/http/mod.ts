/** What applications import of the HTTP interface. */
export { SCOPES, type Scope, type TokenScope } from "../config/groups.ts"
export type { Token } from "./access.ts"
export { type HttpAppOptions, http } from "./app.ts"
export type { HttpOptions, HttpServer } from "./server.ts"
