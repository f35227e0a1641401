/** A longer wait would overflow in some runtimes. */
const MAX_MS = 1e9

/** Blocks this thread, without taking the processor from other tests; for ever if no time in milliseconds is given. */
export const block = (ms = Number.POSITIVE_INFINITY): void => {
  const cell = new Int32Array(new SharedArrayBuffer(4))
  do Atomics.wait(cell, 0, 0, Math.min(ms, MAX_MS))
  while (ms > MAX_MS)
}
