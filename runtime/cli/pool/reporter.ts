/** A process of a pool answers the one that watches over it: whether it is ready, and what it has counted. */
import type { Service } from "../../service/service.ts"
import { questionOf, type Report } from "./message.ts"

/** Answers questions from now on. */
export const reportTo = (service: Service): void => {
  process.on("message", (message: unknown) => {
    const asked = questionOf(message)
    if (asked === undefined) return
    void reportOf(service, asked.metrics).then((report) => process.send?.({ ...report, answers: asked.question }))
  })
}

/** Says, once it has stopped, what it came to: nobody can ask it later. Resolves when that has gone out. */
export const reportLast = async (service: Service): Promise<void> => {
  const report = await reportOf(service, true)
  await new Promise<void>((resolve) => {
    if (process.send === undefined || !process.connected) resolve()
    else process.send(report, () => resolve())
  })
}

const reportOf = async ({ isReady, metrics }: Service, wantsMetrics: boolean): Promise<Report> => ({
  isReady,
  ...(wantsMetrics && metrics !== undefined ? { metrics: JSON.stringify(await metrics.families()) } : {}),
})
