/** An actor whose methods log, or fail, in every way. A file of its own, because child processes load it. */
import { actor } from "callboard"
import { block } from "../../../support/block.ts"

export const noisy = actor("noisy", {
  module: import.meta.url,
  isolation: "process",
  methods: {
    speak: ({ word }: { word: string }, job) => job.log.info(word, { word }),
    /** Leaves a rejected promise that is never awaited. */
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
        block()
      },
    },
  },
})
