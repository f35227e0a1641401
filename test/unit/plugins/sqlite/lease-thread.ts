/**
 * A thread that extends a lease three times within two leases, as the worker's lease thread does, and posts the
 * answers.
 */
import { parentPort, workerData } from "node:worker_threads"
import { plugin } from "../../../../plugins/sqlite/mod.ts"

const { file, token } = workerData

const driver = await plugin.connect(new URL(`sqlite:${file}`), {
  namespace: "test",
  lease: 2_500,
  name: "keeper",
  timeout: 5_000,
})
const answers: Array<ReadonlyArray<boolean>> = []
for (let round = 0; round < 3; round++) {
  answers.push(await driver.extend([token, token.replace(/.$/, (last: string) => (last === "z" ? "y" : "z"))]))
  await new Promise((resolve) => setTimeout(resolve, 1_500))
}
await driver.close()
parentPort?.postMessage(answers)
