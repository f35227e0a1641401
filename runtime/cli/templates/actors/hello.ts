import { actor } from "callboard"

/** An actor has a name and methods; a task names both: `hello.greet`. Edit and save: `callboard dev` reloads. */
export default actor("hello", {
  description: "Says hello",
  methods: {
    /** The short form: a function that takes the task's input. Its return value is the result of the job. */
    greet: async ({ name = "world" }: { name?: string }) => `Hello, ${name}!`,

    /** The long form: with options. The second argument of `run` is the job. */
    count: {
      description: "Counts to a number, one step every tenth of a second",
      retry: { max: 3 },
      run: async ({ to = 5 }: { to?: number }, job) => {
        for (let n = 1; n <= to; n++) {
          // Throws when the job is cancelled, has run out of time, or its worker stops.
          job.signal.throwIfAborted()
          await new Promise((resolve) => setTimeout(resolve, 100))
          job.progress(n / to, { n })
        }
        return { counted: to }
      },
    },
  },
})
