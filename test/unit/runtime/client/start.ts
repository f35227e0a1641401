/** A board of its own for each test, with an actor that does what it is told. */
import { actor, connect, type Service, serve } from "callboard"
import { generateId } from "../../../../runtime/id.ts"
import { keep } from "../../../support/servers/keep.ts"

const echo = actor("echo", {
  methods: {
    run: (input: unknown) => input,
    fail: () => {
      throw new RangeError("out of it")
    },
    hang: (_input, job) => new Promise<void>((resolve) => job.signal.addEventListener("abort", () => resolve())),
  },
})

/** A client of a board of its own, with or without a worker. */
export const start = async (work = true) => {
  const transport = `memory://${generateId()}`
  const client = keep(await connect(transport))
  let service: Service | undefined
  if (work) {
    service = keep(await serve({ transport, actors: [echo], signals: false, logLevel: "none" }))
    await service.ready()
  }
  return { client, service, transport, echo: client.actor<typeof echo>("echo") }
}

export const WAIT = { timeout: 60 }
export const refusal = (code: string, field?: string) => ({
  _tag: "CallboardError",
  code,
  ...(field === undefined ? {} : { details: { field } }),
})
