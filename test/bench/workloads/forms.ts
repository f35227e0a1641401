/** How much is measured. */
export interface Form {
  readonly isFull: boolean
  /** Jobs of a run from end to end. */
  readonly jobs: number
  /** Jobs of an idle round trip. */
  readonly trips: number
  /** Jobs of a run with a limit. */
  readonly limited: number
  /** How long a rate is watched. */
  readonly rateSeconds: number
}
