/** Promises that hold when processes die. The other transports are tested with chaos. */
import { sharedBoards } from "./boards.ts"
import { registerCrashes } from "./crash-cases.ts"

registerCrashes(sharedBoards.slice(0, 1))
