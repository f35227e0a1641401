/** Takes tasks. For a driver that does not wait by itself, it listens for news and asks again after news and due times. */
import type { Delivery, Driver, TakeRequest } from "../driver.ts"
import { TransportError } from "../mod.ts"
import { attemptOf, tokenOf } from "./attempt.ts"
import { decodeContent } from "./codec.ts"
import type { JobDelivery, TakeOptions } from "./transport.ts"

/** News may be lost, therefore a waiting call asks the driver at least this often. */
const LOOK_MS = 5_000

/** Least pause between two questions: a task that is due now may be taken by another worker each time. */
const PAUSE_MS = 5

export const take = async (
  driver: Driver,
  options: TakeOptions,
  signal: AbortSignal,
  closing: AbortSignal,
): Promise<ReadonlyArray<JobDelivery>> => {
  if (signal.aborted || options.max < 1) return []
  const request: TakeRequest = { rotate: false, ...options }
  if (driver.capabilities.waits || request.wait <= 0) return jobDeliveries(await driver.take(request, signal))
  const now = await driver.take({ ...request, wait: 0 }, signal)
  if (now.deliveries.length > 0) return jobDeliveries(now)
  return jobDeliveries({ deliveries: await takeOnNews(driver, request, AbortSignal.any([signal, closing])) })
}

/** Waits for tasks of a driver that does not wait by itself. Nothing when the signal fires. */
export const takeOnNews = async (
  driver: Pick<Driver, "take" | "listen">,
  { wait, ...request }: TakeRequest,
  ending: AbortSignal,
): Promise<ReadonlyArray<Delivery>> => {
  const end = performance.now() + wait
  const listening = new AbortController()
  let isNews = true
  let wake = (): void => undefined
  const onNews = (): void => {
    isNews = true
    wake()
  }
  ending.addEventListener("abort", onNews)
  try {
    await driver.listen(
      { kind: "queues", queues: request.queues },
      (news) => {
        if (news.kind === "missed" || (news.kind === "queue" && request.queues.includes(news.queue))) onNews()
      },
      listening.signal,
    )
    while (!ending.aborted) {
      isNews = false
      const taken = await driver.take({ ...request, wait: 0 }, ending)
      const left = end - performance.now()
      if (taken.deliveries.length > 0 || left <= 0) return taken.deliveries
      const next = Math.max(taken.next ?? LOOK_MS, PAUSE_MS)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(left, next, LOOK_MS))
        wake = () => {
          clearTimeout(timer)
          resolve()
        }
        if (isNews) wake()
      })
    }
    return []
  } catch (thrown) {
    // Closing the transport ends calls that wait, without a failure.
    if (ending.aborted && thrown instanceof TransportError && thrown.reason === "closed") return []
    throw thrown
  } finally {
    listening.abort()
    ending.removeEventListener("abort", onNews)
  }
}

const jobDeliveries = ({ deliveries }: Awaited<ReturnType<Driver["take"]>>): ReadonlyArray<JobDelivery> =>
  deliveries.map((delivery): JobDelivery => {
    const message = decodeContent(delivery.content)
    const attempt = attemptOf(delivery, message)
    const { queue, level, sequence, deliveries: count } = delivery
    const { fence, fresh } = attempt
    return { token: tokenOf(attempt), fence, queue, level, sequence, fresh, deliveries: count, message }
  })
