/** Takes tasks. Where the driver does not wait by itself, a pull listens, and looks again at news and when something is due. */
import type { Driver, TakeRequest } from "../driver.ts"
import { TransportError } from "../mod.ts"
import { attemptOf, tokenOf } from "./attempt.ts"
import { messageIn } from "./codec.ts"
import type { JobDelivery, PullRequest } from "./transport.ts"

/** News is best effort: a pull that waits looks this often all the same. */
const LOOK_MS = 5_000

/** What is due now may be in other hands a moment later: no pull asks without a pause. */
const PAUSE_MS = 5

export const take = async (
  driver: Driver,
  { queues, max, wait, rotate = false }: PullRequest,
  signal: AbortSignal,
  closing: AbortSignal,
): Promise<ReadonlyArray<JobDelivery>> => {
  if (signal.aborted || max < 1) return []
  const request: TakeRequest = { queues, max, wait, rotate }
  if (driver.capabilities.waits || wait <= 0) return deliveriesOf(await driver.take(request, signal))
  const now = await driver.take({ ...request, wait: 0 }, signal)
  if (now.deliveries.length > 0) return deliveriesOf(now)
  return waiting(driver, request, AbortSignal.any([signal, closing]))
}

const waiting = async (
  driver: Driver,
  { wait, ...request }: TakeRequest,
  ending: AbortSignal,
): Promise<ReadonlyArray<JobDelivery>> => {
  const end = performance.now() + wait
  const listening = new AbortController()
  let heard = true
  let wake = (): void => undefined
  const hear = (): void => {
    heard = true
    wake()
  }
  ending.addEventListener("abort", hear)
  try {
    await driver.listen(
      { kind: "queues", queues: request.queues },
      (news) => {
        if (news.kind === "missed" || (news.kind === "queue" && request.queues.includes(news.queue))) hear()
      },
      listening.signal,
    )
    while (!ending.aborted) {
      heard = false
      const taken = await driver.take({ ...request, wait: 0 }, ending)
      const left = end - performance.now()
      if (taken.deliveries.length > 0 || left <= 0) return deliveriesOf(taken)
      const next = Math.max(taken.next ?? LOOK_MS, PAUSE_MS)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(left, next, LOOK_MS))
        wake = () => {
          clearTimeout(timer)
          resolve()
        }
        if (heard) wake()
      })
    }
    return []
  } catch (thrown) {
    // A transport that is closed ends its waiting pulls: that is no failure of theirs.
    if (ending.aborted && thrown instanceof TransportError && thrown.reason === "closed") return []
    throw thrown
  } finally {
    listening.abort()
    ending.removeEventListener("abort", hear)
  }
}

const deliveriesOf = ({ deliveries }: Awaited<ReturnType<Driver["take"]>>): ReadonlyArray<JobDelivery> =>
  deliveries.map((delivery): JobDelivery => {
    const message = messageIn(delivery.content)
    const attempt = attemptOf(delivery, message)
    const { queue, level, sequence, deliveries: count } = delivery
    const { fence, fresh } = attempt
    return { token: tokenOf(attempt), fence, queue, level, sequence, fresh, deliveries: count, message }
  })
