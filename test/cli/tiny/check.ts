/** Runs the conformance kit as a plugin author would, without a test runner; prints the report as JSON. */
import { runConformance } from "callboard/conformance"
import { capabilities, faults, plugin } from "./plugin.ts"

faults.forgetsAcks = process.argv.includes("--forgets-acks")

const report = await runConformance({
  name: "tiny",
  capabilities,
  parts: [],
  connect: (options) => plugin.connect(new URL("tiny://kit"), options),
})
console.log(JSON.stringify({ ...report, results: report.results.filter(({ outcome }) => outcome === "failed") }))
process.exit(report.failed === 0 ? 0 : 1)
