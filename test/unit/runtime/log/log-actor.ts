/** An actor whose methods say something, or fail, in all ways; in a file of its own: child processes load it. */
import { actor } from "callboard"

export const noisy = actor("noisy", {
  module: import.meta.url,
  isolation: "process",
  methods: {
    speak: ({ word }: { word: string }, job) => job.log.info(word, { word }),
    /** Nobody waits for what fails here. */
    crash: () => {
      setTimeout(() => {
        throw new Error("boom")
      }, 10)
      return new Promise(() => undefined)
    },
    inline: {
      isolation: "inline",
      run: ({ word }: { word: string }, job) => {
        job.log.warn(word)
        throw new Error(word)
      },
    },
    block: {
      isolation: "inline",
      run: () => {
        for (;;);
      },
    },
  },
})
