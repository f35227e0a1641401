/** Job boards on each runtime; the acceptance scenarios try them on Bun. */
import { onTestFinished, test } from "vitest"
import { generateId } from "../../../../runtime/id.ts"
import { temporaryFolder } from "../../../support/servers/process.ts"
import { workBoard } from "../../../support/work-board.ts"

test("a job board in memory is worked", () => workBoard(`memory://${generateId()}`))

test("a job board in a file is worked", async () => {
  const folder = temporaryFolder()
  onTestFinished(() => folder.remove())
  await workBoard(`sqlite:${folder.path}/board.db`)
})
