/**
 * Asks up to four times, until an answer comes within `boundMs`: a busy machine is late now and then, and what keeps no bound is late
 * each time. Resolves with the last answer and the shortest time in milliseconds.
 */
export const fastest = async <A>(boundMs: number, ask: () => Promise<A>): Promise<readonly [answer: A, ms: number]> => {
  let min = Number.POSITIVE_INFINITY
  for (let tries = 1; ; tries++) {
    const began = performance.now()
    const answer = await ask()
    min = Math.min(min, performance.now() - began)
    if (min < boundMs || tries === 4) return [answer, min]
  }
}
