/**
 * The broadcast message that a job was cancelled. The job's record decides; the message only lets a worker stop the run
 * early.
 */

/** A cancellation. Without `run` (sent by an older version) it means whichever run the worker has. */
export interface Cancellation {
  readonly id: string
  readonly run: number | undefined
  readonly terminate: boolean
}

const decoder = new TextDecoder()

/** Reads the payload of `CANCEL_TOPIC`; `undefined` for anything else. */
export const cancellationOf = (payload: Uint8Array): Cancellation | undefined => {
  try {
    const message: unknown = JSON.parse(decoder.decode(payload))
    if (typeof message !== "object" || message === null || !("id" in message) || typeof message.id !== "string")
      return undefined
    return {
      id: message.id,
      run: "run" in message && typeof message.run === "number" ? message.run : undefined,
      terminate: "terminate" in message && message.terminate === true,
    }
  } catch {
    return undefined
  }
}
