/**
 * Callboard for applications that only submit and follow jobs: loads neither the HTTP server nor a worker, and runs on
 * Node as well.
 */
export type { HttpBoard, HttpBoardClaim, HttpBoardIterator } from "./http-board.ts"
export type { HttpClientSettings, HttpJob, HttpSchedules, HttpSubmittedJob } from "./http-client.ts"
export { connectHttp, type HttpClient } from "./http-client-with-boards.ts"
export * from "./shared.ts"
