import { expect, test } from "vitest"
import { Untouched } from "../../../../../runtime/worker/limits/untouched.ts"

const delivery = (deliveries: number, fresh: boolean, sequence = 7) => ({
  queue: "default",
  sequence,
  deliveries,
  fresh,
})

test("a task that nobody else had since this worker has put it off is as good as new", () => {
  const tasks = new Untouched()
  tasks.note(delivery(1, true))
  expect(tasks.recognise(delivery(2, false)).fresh).toBe(true)
  // Once: what comes then is another delivery.
  expect(tasks.recognise(delivery(3, false)).fresh).toBe(false)
})

test.each([
  ["was delivered to another worker meanwhile", delivery(1, true), delivery(3, false)],
  ["was not new when it was put off", delivery(2, false), delivery(3, false)],
  ["is another of the same job", delivery(1, true), delivery(2, false, 8)],
])("one that %s is not", (_, before, after) => {
  const tasks = new Untouched()
  tasks.note(before)
  expect(tasks.recognise(after).fresh).toBe(false)
})

test("after a cancellation nothing is known", () => {
  const tasks = new Untouched()
  tasks.note(delivery(1, true))
  tasks.forget()
  expect(tasks.recognise(delivery(2, false)).fresh).toBe(false)
})
