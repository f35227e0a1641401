/** What must compile about tasks of flows, and what must not. Checked by tsc, never run. */
import {
  actor,
  type Flow,
  type FlowTask,
  type FlowValues,
  flow,
  forEach,
  handlerOf,
  type Step,
  task,
  times,
} from "callboard"
import { Effect } from "effect"
import { same, type TypesOf } from "../../../support/same.ts"

interface Order {
  readonly items: ReadonlyArray<string>
  readonly note?: string
}

export const quote = task({ requires: ["items"], provides: ["total"] }, ({ items }: Order) => ({ total: items.length }))
same<typeof quote, FlowTask>(true)

export const charge = task(
  {
    requires: ["total", "card"],
    provides: ["payment"],
    retry: { max: 3, backoff: { base: "1 second" } },
    timeLimit: "10s",
    after: ["quote"],
    depth: "flow",
    when: (input) => {
      same<typeof input, { total: number; card: string }>(true)
      return input.total > 0
    },
    revert: ({ input, result, error, step }) => {
      same<typeof input, { total: number; card: string }>(true)
      same<typeof result, { readonly payment: string; readonly at?: string } | undefined>(true)
      return [input.card, result?.payment, error?.is("CardDeclined"), step.key]
    },
  },
  async (
    { total, card }: { total: number; card: string },
    { key }: Step,
  ): Promise<{ payment: string; at?: string }> => ({
    payment: `${card} ${total} ${key}`,
  }),
)

task({ requires: [], provides: [] }, () => undefined)
task({ requires: [], provides: ["n"] }, () => Effect.succeed({ n: 1 }))
task({ requires: ["items", "note"], provides: [] }, ({ items, note }: Order) => void [items, note])
task({ requires: ["items"], provides: ["key"] }, ({ items }: Order, step: Step) => ({ key: step.key + items.length }))

// @ts-expect-error a value that the function does not take
task({ requires: ["item"], provides: ["total"] }, ({ items }: Order) => ({ total: items.length }))
// @ts-expect-error a value that it takes is not named
task({ requires: ["note"], provides: ["total"] }, ({ items }: Order) => ({ total: items.length }))
// @ts-expect-error a value that it does not return
task({ requires: ["items"], provides: ["sum"] }, ({ items }: Order) => ({ total: items.length }))
// @ts-expect-error a value that it may not return
task({ requires: ["items"], provides: ["total"] }, ({ items }: Order): { total?: number } => ({ total: items.length }))
// @ts-expect-error a value of a result without a type
task({ requires: [], provides: ["total"] }, () => JSON.parse("{}"))
// @ts-expect-error a misspelt option
task({ requires: [], provides: [], timelimit: 1 }, () => undefined)
// @ts-expect-error `when` is asked, and not awaited
task({ requires: [], provides: [], when: async () => true }, () => undefined)
// @ts-expect-error no such depth
task({ requires: [], provides: [], depth: "none" }, () => undefined)

export const order = flow("order", { tasks: { quote, charge }, retry: times(2), as: "try", parallel: 2 })
same<typeof order, Flow>(true)
export const nested = flow("nested", { pattern: "linear", tasks: { order, quote }, retry: forEach(["eu", "us"]) })

// @ts-expect-error no such pattern
flow("order", { pattern: "parallel", tasks: { quote } })
// @ts-expect-error a function is not a task
flow("order", { tasks: { quote: () => ({ total: 1 }) } })
// @ts-expect-error a number is not a controller
flow("order", { tasks: { quote }, retry: 3 })

export const shop = actor("shop", {
  methods: { order: { retry: { max: 1 }, run: handlerOf(order) }, nested: handlerOf(nested) },
})
same<
  TypesOf<typeof shop>,
  {
    readonly input: { readonly order: FlowValues; readonly nested: FlowValues }
    readonly result: { readonly order: FlowValues; readonly nested: FlowValues }
  }
>(true)
