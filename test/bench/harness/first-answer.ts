/** Waits for the first good answer of a server that is starting. */

/** Milliseconds between two tries: how exact the time is. */
const EVERY_MS = 5
const DEADLINE_MS = 60_000

/** Repeats a request until it is answered with success. */
export const firstAnswer = async (url: string, request: RequestInit = {}): Promise<void> => {
  const end = performance.now() + DEADLINE_MS
  for (;;) {
    try {
      const response = await fetch(url, request)
      await response.text()
      if (response.ok) return
    } catch {
      // Nothing listens yet.
    }
    if (performance.now() > end) throw new Error(`${url} did not answer within ${DEADLINE_MS} ms`)
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS))
  }
}
