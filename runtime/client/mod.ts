/**
 * Callboard for applications that only submit and follow jobs: loads neither the HTTP server nor a worker, and runs on
 * Node as well.
 */
export type { HttpBoard, HttpBoardClaim, HttpBoardIterator } from "./http-board.ts"
export {
  connectHttp,
  type HttpClient,
  type HttpClientSettings,
  type HttpJob,
  type HttpSchedules,
  type HttpSubmittedJob,
} from "./http-client.ts"
export * from "./shared.ts"
