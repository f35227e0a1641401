/** Documentation and messages read as a native engineer writes; CONTRIBUTING.md has the words to use. */
import { expect, test } from "vitest"
import { messagesOf, oddSentences, sentencesOf } from "./support/english.ts"
import { sourcesBelow } from "./support/tools/imports.ts"
import { pages } from "./support/tools/pages.ts"

/** The largest share of sentences with a sign. It may only fall. */
const LIMIT = 0.015

test("few sentences of README.md and docs/ are odd", () => {
  const sentences = pages.flatMap(({ text }) => sentencesOf(text))
  const odd = pages.flatMap(({ path, text }) =>
    oddSentences(sentencesOf(text)).map((found) => `${path}: ${found.sentence} (${found.signs.join("; ")})`),
  )
  expect(sentences.length).toBeGreaterThan(1_000)
  expect(odd.length / sentences.length, `odd sentences:\n${odd.join("\n")}\n`).toBeLessThan(LIMIT)
})

test("few sentences of messages are odd", () => {
  const messages = [...sourcesBelow("runtime", "plugins", "actors")].flatMap(([path, source]) =>
    messagesOf(path, source).map((sentence) => [path, sentence] as const),
  )
  const odd = messages.flatMap(([path, message]) =>
    oddSentences([message]).map((found) => `${path}: ${found.sentence} (${found.signs.join("; ")})`),
  )
  expect(messages.length).toBeGreaterThan(1_000)
  expect(odd.length / messages.length, `odd messages:\n${odd.join("\n")}\n`).toBeLessThan(LIMIT)
})

test.each([
  "`limit` is what all workers together keep to.",
  "Where there is no room for more, the others go back.",
  "A job that runs is not found any more.",
  "Each namespace has a schema of its own.",
  "A handler cannot end by itself here.",
  "`DELETE` forgets it: of its input nothing stays, and what came of it is gone.",
  "Copies go to callbacks, which keep what they were given.",
  "A message that is no task does no harm.",
  "A second one is refused, also when the first has ended.",
  "It stops when it is told to do so.",
  "Of a running job the handler's signal fires.",
  "A lease that is over holds until then.",
  "Running handlers go on until the end.",
  "Handlers of a queue lie in one folder.",
  "A key that stands in the URL wins.",
  "Results for ever are not promised here.",
  "Who has only NATS subscribes to it.",
  "The process is to be started again.",
  "A task is reported once it is there.",
  "A thread cannot hold so many of them.",
  "A file that is not there is created.",
  "All times are by the clock of the store.",
  "A task that was redelivered meanwhile is dropped.",
  "Most handlers that can run here at a time",
  "The body has `size` bytes, and `max` are allowed.",
  "An address another than loopback needs a token.",
  "The process ends, to be started again.",
])("%s is odd", (sentence) => {
  expect(oddSentences(sentencesOf(sentence))).toHaveLength(1)
})

test.each([
  "`limit` applies across all workers.",
  "The file says where the jobs are stored.",
  "A job that has ended is no longer listed.",
  "Each namespace has a separate schema.",
  "`why` shows what a job is waiting for.",
  "There is no such route, and there are no workers.",
  "Keep as many results as you need.",
  "What happens when a worker dies?",
  "Since when has the queue been paused?",
  "Most of the jobs have ended.",
  "| `stop` | stops the worker | and the table is fine as it is |",
])("%s is not", (sentence) => {
  expect(oddSentences(sentencesOf(sentence))).toEqual([])
})
