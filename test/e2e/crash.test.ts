/** What is promised through the death of processes. On the other transports the same is tried with chaos. */
import { sharedBoards } from "./boards.ts"
import { registerCrashes } from "./crash-cases.ts"

registerCrashes(sharedBoards.slice(0, 1))
