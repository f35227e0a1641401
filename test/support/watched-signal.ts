/** A signal that counts its listeners: a wait that has ended must leave none on a signal that outlives it. */
export const watchedSignal = () => {
  const { signal } = new AbortController()
  const listeners = new Set<unknown>()
  let added = 0
  const { addEventListener, removeEventListener } = signal
  const watched = Object.assign(signal, {
    addEventListener: (...args: Parameters<typeof addEventListener>) => {
      added++
      listeners.add(args[1])
      addEventListener.apply(signal, args)
    },
    removeEventListener: (...args: Parameters<typeof removeEventListener>) => {
      listeners.delete(args[1])
      removeEventListener.apply(signal, args)
    },
  })
  return { signal: watched, counts: () => ({ added, left: listeners.size }) }
}
