export type { HttpOptions } from "./server.ts"
export const http = undefined
