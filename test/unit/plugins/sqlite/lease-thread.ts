/**
 * A thread that says when it is connected, extends the lease of the token that it then gets three times within two leases, as the
 * worker's lease thread does, and posts the answers.
 */
import { parentPort, workerData } from "node:worker_threads"
import { plugin } from "../../../../plugins/sqlite/mod.ts"

const { file } = workerData

const driver = await plugin.connect(new URL(`sqlite:${file}`), {
  namespace: "test",
  lease: 4_000,
  name: "keeper",
  timeout: 5_000,
})
parentPort?.postMessage("ready")
const token = await new Promise<string>((resolve) => parentPort?.once("message", resolve))
const answers: Array<ReadonlyArray<boolean>> = []
for (let round = 0; round < 3; round++) {
  answers.push(await driver.extend([token, token.replace(/.$/, (last: string) => (last === "z" ? "y" : "z"))]))
  await new Promise((resolve) => setTimeout(resolve, 2_000))
}
await driver.close()
parentPort?.postMessage(answers)
