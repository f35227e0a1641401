/** Names of the boards in memory that runs of tests get. */

let boards = 0

/**
 * A name that no other run of this process has. It is not a generated id: under a seed the next run would generate the same.
 */
export const newBoardName = (): string => `run-${++boards}`
