/** Locks a database until a line comes on its standard input: `lock.ts <file>`, in a process of its own. */
import { DatabaseSync } from "node:sqlite"

const database = new DatabaseSync(process.argv[2] ?? "", { timeout: 5_000 })
database.exec("BEGIN EXCLUSIVE")
console.log("locked")
process.stdin.once("data", () => {
  database.exec("COMMIT")
  database.close()
  process.exit(0)
})
