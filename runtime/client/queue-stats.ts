/** How a queue stands, as applications are told. */
export interface QueueStats {
  readonly queue: string
  /** Due and waiting. */
  readonly ready: number
  readonly scheduled: number
  /** Handed over and not settled. */
  readonly inFlight: number
  /** When the oldest ready task was submitted. */
  readonly oldest?: number
}
