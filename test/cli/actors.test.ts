/** Options of methods from method, actor, flag, variable and file: `actors`, `why` and `doctor` show which holds, and its source. */
import { expect, test } from "vitest"
import { makeProject } from "./project.ts"

const mail = `
import { actor } from "callboard"
export default actor("mail", {
  timeLimit: { soft: "20 seconds", hard: "30 seconds" },
  methods: {
    send: { retry: { max: 3, on: ["Busy"] }, run: () => 1 },
    bounce: () => { throw new RangeError("no") },
    hang: { timeLimit: 0.2, run: () => new Promise(() => undefined) },
  },
})
`

/** The lines of an output, with one space between the columns. */
const rowsOf = (stdout: string): ReadonlyArray<string> =>
  stdout.split("\n").map((line) => line.trim().replace(/ +/g, " "))

test("each says the option that holds and where it is set", async () => {
  using project = makeProject({
    "actors/mail.ts": mail,
    "callboard.config.ts": `export default { retry: { max: 1, interval: 0 }, resultTtl: "2 hours", onLost: "redeliver" }`,
  })
  project.env["CALLBOARD_RESULT_TTL"] = "1 hour"
  project.env["CALLBOARD_TIME_LIMIT"] = "1 minute"
  const rows = async (...args: ReadonlyArray<string>) => rowsOf((await project.ask(...args, "--wide")).stdout)

  const doctor = await rows("doctor")
  expect(doctor).toContain("timeLimit 1 minute variable CALLBOARD_TIME_LIMIT")
  expect(doctor).toContain('retry {"max":1,"interval":0} callboard.config.ts')
  expect(doctor.slice(doctor.indexOf("Options of methods") + 1)).toEqual(
    expect.arrayContaining([
      "mail.send timeLimit 30 seconds, soft 20 seconds actor",
      "mail.send retry 3, 1 second × 2 up to 10 minutes, only Busy method",
      "mail.send resultTtl 1 hour variable CALLBOARD_RESULT_TTL",
      "mail.send onLost redeliver callboard.config.ts",
      "mail.bounce timeLimit 30 seconds, soft 20 seconds actor",
      "mail.bounce retry 1, after 0 seconds callboard.config.ts",
    ]),
  )

  expect(await project.ask("actors")).toMatchObject({ code: 0, stdout: "", stderr: "no actors are served\n" })
  await using worker = project.start("worker", "--on-lost", "fail")
  await worker.waitForLine(/message=ready/)
  expect((await rows("actors", "mail")).slice(0, 7)).toEqual([
    "METHOD OPTION VALUE SET BY",
    "mail.send timeLimit 30 seconds, soft 20 seconds actor",
    "retry 3, 1 second × 2 up to 10 minutes, only Busy method",
    "resultTtl 1 hour variable CALLBOARD_RESULT_TTL",
    "failureTtl 7 days default",
    "onLost fail flag --on-lost",
    "mail.bounce timeLimit 30 seconds, soft 20 seconds actor",
  ])
  expect(await project.ask("actors", "nobody")).toMatchObject({ stderr: "no running worker serves actor nobody\n" })

  await project.ask("submit", "mail.bounce", "--id", "bounces", "--wait")
  await project.ask("submit", "mail.hang", "--id", "hangs", "--wait")
  const [[bounced], [hung]] = [await rows("why", "bounces"), await rows("why", "hangs")]
  expect(bounced).toContain("(RangeError: no); after 1 retry (callboard.config.ts); to run it again")
  expect(hung).toContain(
    "limit of 0.2 s); time limit 0.2 seconds (method mail.hang); after 1 retry (callboard.config.ts); to run",
  )
})
