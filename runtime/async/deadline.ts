/** What `work` comes to, unless it takes longer than `ms`; then fails with `late()`. The work itself goes on. */
export const within = <T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> =>
  new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
