/** What the compiler knows of actors over HTTP, by their types alone. */
import type { Actor } from "callboard"
import { connectHttp } from "callboard/http"

declare const text: Actor<"text", { readonly count: { readonly text: string } }, { readonly count: { words: number } }>

const client = connectHttp("/callboard")
export const words: Promise<number> = client
  .actor<typeof text>("text")
  .count.submit({ text: "a b" })
  .then((job) => job.result())
  .then((result) => result.words)
// @ts-expect-error The input has a text.
export const wrong = client.actor<typeof text>("text").count.submit({ txt: "a b" })
// @ts-expect-error There is no such method.
export const absent = client.actor<typeof text>("text").cuont
// @ts-expect-error Boards are a function of their own here.
export const boards = client.board("print")
