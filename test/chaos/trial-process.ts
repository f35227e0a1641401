/** Runs a trial under a clock that it sets: `trial-process.ts <trial> <transport> <folder> <size as JSON>`. Prints the report. */
import { runHere, trials } from "./trials.ts"

const [name, transport = "", folder = "", size = "{}"] = process.argv.slice(2)
const trial = trials.find((each) => each.name === name)
if (trial === undefined) throw new Error(`there is no trial ${name}`)

const board = { url: () => transport, folder }
console.log(`report ${JSON.stringify(await runHere(trial, board, JSON.parse(size)))}`)
process.exit(0)
