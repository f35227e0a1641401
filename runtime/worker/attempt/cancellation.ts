/** The news that a job was cancelled. The record decides; the news only spare a worker the rest of the run. */

/** A cancellation; without `run` (from an older version) it is of whichever run is held. */
export interface Cancellation {
  readonly id: string
  readonly run: number | undefined
  readonly terminate: boolean
}

const decoder = new TextDecoder()

/** Reads the payload of `CANCEL_TOPIC`; `undefined` for anything else. */
export const cancellationOf = (payload: Uint8Array): Cancellation | undefined => {
  try {
    const news: unknown = JSON.parse(decoder.decode(payload))
    if (typeof news !== "object" || news === null || !("id" in news) || typeof news.id !== "string") return undefined
    return {
      id: news.id,
      run: "run" in news && typeof news.run === "number" ? news.run : undefined,
      terminate: "terminate" in news && news.terminate === true,
    }
  } catch {
    return undefined
  }
}
