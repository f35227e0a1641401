/**
 * The transport contract (`callboard/transport`). The author of a transport writes a {@link Driver}: it stores tasks in
 * queues, delivers them, keeps one record per job, and changes tasks and records by `commit`. The runtime does the rest for
 * all transports: it decides what a record says, which delivery is too late, and what follows from an outcome.
 *
 * Plain TypeScript: promises and `AbortSignal`. Times are milliseconds since the epoch by the clock of the caller unless
 * said otherwise; durations are milliseconds.
 */
export type { Message, Undecodable } from "../protocol/message.ts"
export type { State } from "../protocol/state.ts"
export { BaseDriver, BaseQueueDriver, type Link } from "./base-driver.ts"
export {
  checkCommit,
  checkConnectOptions as checkOptions,
  checkLevel,
  checkOperation,
  checkPosting,
  checkTopic,
  checkUrlOptions,
} from "./checks.ts"
export type {
  Capabilities,
  Commit,
  CommitRecord,
  Committed,
  ConnectOptions,
  Delivery,
  Driver,
  Interest,
  News,
  Plugin,
  Posting,
  QueueDriver,
  QueuePlugin,
  Receipt,
  Taken,
  TakeRequest,
  TaskEnd,
} from "./driver.ts"
export { explainCode, type Reasons, TransportError, type TransportReason } from "./errors.ts"
export type { Index, Known, QueuedTask } from "./known.ts"
export {
  type Broadcast,
  type Counts,
  type FoundJob,
  type FoundJobs,
  matches,
  type Queries,
  type Query,
  type QueueBrowser,
  type QueueDepth,
} from "./optional.ts"
export { missingLibrary } from "./packages.ts"
export { answerEach, asError, type Failed, PlainDriver } from "./plain-driver.ts"
export type { Entry, Revision, Store, StoreOperation } from "./store.ts"
