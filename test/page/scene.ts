/** Fills a board for views to show: jobs that wait, run, have failed and are dead letters, a paused queue, a limit. */
import { eventually } from "../support/servers/process.ts"
import type { Board } from "./board.ts"

export interface Scene {
  /** Ids of jobs: `failed`; `running`; `held` back by a limit; `waiting` for another job; `done`. */
  readonly jobs: Readonly<Record<"failed" | "running" | "held" | "waiting" | "done", string>>
  /** Addresses of the views, by name. */
  readonly views: Readonly<Record<string, string>>
}

const PEOPLE = ["billing@acme.test", "ops@globex.test", "hr@globex.test", "lab@umbrella.test", "gavin@hooli.test"]

export const fill = async (board: Board): Promise<Scene> => {
  const running = await board.submit("work.hold", {}, { meta: { region: "eu" } })
  await board.reached(running, "started")
  const done = await board.ended("work.echo", { n: 1 }, { meta: { customer: 7 } })
  for (let n = 0; n < 10; n++) await board.submit("work.echo", { n })
  for (const to of PEOPLE) await board.submit("mailer.send", { to }, { description: `mail to ${to}` })
  const failed = await board.ended("mailer.send", { to: "ceo@acme.test" }, { meta: { customer: 7 } })
  await board.submit("work.echo", { later: true }, { delay: "1h" })
  const waiting = await board.submit("work.echo", {}, { after: [running] })
  await board.ask("POST", "/v1/queues/reports/pause")
  for (let n = 0; n < 3; n++) await board.submit("work.echo", { n }, { queue: "reports" })
  await board.submit("imports.rows", { tenant: "acme" })
  const held = await board.submit("imports.rows", { tenant: "acme" })
  await board.submit("imports.rows", { tenant: "globex" })
  await board.ended("work.reject")
  await board.ended("work.reject")
  await eventually(async () => (await board.ask("GET", "/v1/count?state=failed")).body.count === PEOPLE.length + 3)
  // Workers write their counts every ten seconds.
  const [cause] = await eventually(async () => {
    const { errors } = (await board.ask("GET", "/v1/errors?task=mailer.send")).body
    return errors.length > 0 && errors
  })
  return {
    jobs: { failed, running, held, waiting, done },
    views: {
      overview: "/",
      jobs: "/jobs",
      "jobs-failed": "/jobs?state=failed",
      job: `/jobs/${failed}`,
      "job-running": `/jobs/${running}`,
      "job-held": `/jobs/${held}`,
      errors: "/errors",
      error: `/errors/${cause.fingerprint}`,
      queues: "/queues",
      queue: "/queues/reports",
      workers: "/workers",
      worker: "/workers/wk-1",
      schedules: "/schedules",
      dead: "/dead",
    },
  }
}
