/** Mutants of calling back what was put off. */
import { TransportError } from "../../../runtime/transport.ts"
import { type Mutant, queueBroken } from "./mutant.ts"

/** Looks at the task alone, not at which delivery has put it off: hands back what somebody has in hand by now. */
const unfenced = queueBroken(() => {
  /** The latest token of each task, by the part that names the task. */
  const latest = new Map<string, string>()
  const taskIn = (token: string): string => token.slice(0, token.indexOf("."))
  return (queue) => ({
    pull: async (request, signal) => {
      const deliveries = await queue.pull(request, signal)
      for (const { token } of deliveries) latest.set(taskIn(token), token)
      return deliveries
    },
    hasten: async (tokens) => {
      const now = [...new Set(tokens.map((token) => latest.get(taskIn(token)) ?? token))]
      await queue.hasten?.(now)
      await queue.settle(now.map((token) => ({ token, then: { kind: "release", delay: 0 } })))
    },
  })
})

export const hastenMutants: ReadonlyArray<Mutant> = [
  {
    breaks: "hasten: a task that was put off comes at once, to a pull that waits, and no other does",
    breaker: queueBroken(() => () => ({ hasten: async () => undefined })),
  },
  { breaks: "hasten: a task that was delivered again stays with whoever has it", breaker: unfenced },
  { breaks: "hasten: what a later delivery has put off waits for that delay", breaker: unfenced },
  { breaks: "hasten: hastening twice is hastening once", breaker: unfenced },
  {
    breaks: "hasten: tokens that mean nothing any more are ignored, and hold no other up",
    breaker: queueBroken(() => (queue) => ({
      hasten: async (tokens) => {
        for (const token of tokens) {
          if (!/^\d+\.[0-9a-z]{11}$/.test(token)) throw new TransportError("invalid", `not a token: ${token}`)
          await queue.hasten?.([token])
        }
      },
    })),
  },
  {
    breaks: "hasten: many tasks are hastened in one call",
    breaker: queueBroken(() => (queue) => ({ hasten: async (tokens) => queue.hasten?.(tokens.slice(0, 10)) })),
  },
]
