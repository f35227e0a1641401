/**
 * An order that a person approves within three days. The goods are reserved meanwhile; after a day the person is reminded. If
 * nobody decides, or the order is refused or cancelled, the goods are given back. The job holds no slot while it waits.
 *
 * ```sh
 * export ORDER_SHOP=http://localhost:8080/shop/
 * npx callboard submit order.place '{"item": "tea", "quantity": 2}'
 * npx callboard signal ID decision '{"approved": true, "by": "Ada"}' --key click-1
 * ```
 *
 * The page of the person sends the same over HTTP, `POST /v1/jobs/{id}/signals/decision`. A first decision stands.
 *
 * Fails with `SoldOut`, `NotApproved`, `NotDecided`, `InvalidDecision`, `ShopUnavailable` (after several tries), `ShopRefused`,
 * `NoShop`.
 */

import { actor } from "callboard"
import { Effect, Schema } from "effect"
import { httpShop, type Shop } from "./order/shop.ts"

export interface OrderOptions {
  /** The services of the shop. Defaults to those below the URL of the environment's `ORDER_SHOP`. */
  readonly shop?: Shop
}

const OrderInput = Schema.Struct({
  item: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200)),
  quantity: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000 })).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed(1)),
  ),
})

const Decision = Schema.Struct({ approved: Schema.Boolean, by: Schema.String })
const isDecision = Schema.is(Decision)

/** The person has refused the order. */
export class NotApproved extends Error {
  readonly _tag = "NotApproved"
  override readonly name = "NotApproved"
}

/** Nobody has decided in three days. */
export class NotDecided extends Error {
  readonly _tag = "NotDecided"
  override readonly name = "NotDecided"
}

/** The value of the signal is no decision. */
export class InvalidDecision extends Error {
  readonly _tag = "InvalidDecision"
  override readonly name = "InvalidDecision"
}

/** No shop is configured. */
export class NoShop extends Error {
  readonly _tag = "NoShop"
  override readonly name = "NoShop"
}

const AGAIN = {
  retry: { max: 8, backoff: { base: "1 second", factor: 3, max: "5 minutes" }, on: ["ShopUnavailable"] },
} as const

export const orderActor = (options: OrderOptions = {}) =>
  actor("order", {
    description: "Orders that a person approves",
    start: () => ({ shop: options.shop ?? shopOf(process.env["ORDER_SHOP"]) }),
    methods: {
      place: {
        description: "Reserves the goods, waits up to three days for the approval, and dispatches the order",
        input: Schema.toStandardSchemaV1(OrderInput, { parseOptions: { onExcessProperty: "error" } }),
        run: async ({ item, quantity }, job) => {
          const { shop } = job.use
          const order = { id: job.id, item, quantity }
          await job.step("reserve", ({ signal }) => shop.reserve(order, signal), {
            ...AGAIN,
            revert: ({ step }) => shop.release(order, step.signal),
          })
          await job.step("ask", ({ signal }) => shop.ask(order, false, signal), AGAIN)
          let decision = await job.waitFor("first day", { signal: "decision", timeout: "1 day" })
          if (decision === undefined) {
            await job.step("remind", ({ signal }) => shop.ask(order, true, signal), AGAIN)
            decision = await job.waitFor("two more days", { signal: "decision", timeout: "2 days" })
          }
          if (decision === undefined) throw new NotDecided("nobody has decided in three days")
          if (!isDecision(decision))
            throw new InvalidDecision(`the signal decision must have a value such as {"approved": true, "by": "Ada"}`)
          const { approved, by } = decision
          if (!approved) throw new NotApproved(`${by} has refused the order`)
          await job.step("dispatch", ({ signal }) => shop.dispatch(order, by, signal), AGAIN)
          return { approvedBy: by }
        },
      },
    },
  })

export default orderActor()

const shopOf = (url: string | undefined): Shop => {
  if (url !== undefined && URL.canParse(url)) return httpShop(url)
  const missing = () => Promise.reject(new NoShop("no shop is configured; set ORDER_SHOP to its URL"))
  return { reserve: missing, release: missing, ask: missing, dispatch: missing }
}
