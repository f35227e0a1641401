/** A promise with what settles it. `Promise.withResolvers` is missing on Node 20, where clients run. */
export interface Deferred<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T | PromiseLike<T>) => void
  readonly reject: (cause?: unknown) => void
}

export const deferred = <T>(): Deferred<T> => {
  let settle: Omit<Deferred<T>, "promise"> | undefined
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject }
  })
  // The function above has been called by now.
  if (settle === undefined) throw new Error("a promise has not called its executor")
  return { promise, ...settle }
}
