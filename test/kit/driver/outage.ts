/** Helpers of the cases in which the broker is away: bounds of time, and calls that are repeated until it is back. */
import type { Delivery, Posting } from "../../../runtime/transport/driver.ts"
import { check, isTransportError } from "../check.ts"
import { type DriverContext, patience } from "./context.ts"
import type { DriverPeer } from "./peer.ts"

/** Longest time that a call may take while the broker does not answer, in milliseconds. */
export const boundOf = ({ harness }: DriverContext): number => harness.bound ?? 15_000

/** Fails unless the error says that the broker is away. */
export const away = (error: unknown, what: string): void => {
  check(
    isTransportError(error) && error.reason === "unavailable",
    `${what} may fail as unavailable only: ${String(error)}`,
  )
}

/** Longest time until a driver works again, in milliseconds. */
export const mending = (context: DriverContext): number => patience(boundOf(context) + 5_000)

/** Publishes tasks one by one, and repeats each until it is stored. */
export const persist = async ({ peer, until }: DriverContext, postings: ReadonlyArray<Posting>): Promise<void> => {
  for (const posting of postings) {
    await until(
      "a receipt, trying again while the broker is away",
      async () => {
        try {
          const [receipt] = await peer.driver.publish([posting])
          if (receipt?.status !== "failed") return receipt !== undefined
          away(receipt.error, "a publish")
        } catch (error) {
          away(error, "a publish")
        }
        return false
      },
      patience(20_000),
    )
  }
}

/** Takes once. Resolves with no deliveries while the broker is away. */
export const takeThrough = async (
  { driver }: DriverPeer,
  queue: string,
  wait = 500,
): Promise<ReadonlyArray<Delivery>> => {
  try {
    const request = { queues: [queue], max: 5, wait, rotate: false }
    return (await driver.take(request, new AbortController().signal)).deliveries
  } catch (error) {
    away(error, "a take")
    return []
  }
}

/** Resolves when the broker answers again. */
export const answering = ({ peer, until }: DriverContext): Promise<unknown> =>
  until("an answer after the cut", () => peer.driver.store.get(["a"]).catch(() => undefined), patience(20_000))
