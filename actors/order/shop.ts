/** The shop's own services over HTTP. Each request may be repeated: it names the order, and is the same each time. */

export interface Order {
  readonly id: string
  readonly item: string
  readonly quantity: number
}

export interface Shop {
  /** Holds the goods of an order. Fails with {@link SoldOut}. */
  reserve(order: Order, signal: AbortSignal): Promise<void>
  /** Gives the goods of an order back, also of an order that holds none. */
  release(order: Order, signal: AbortSignal): Promise<void>
  /** Asks a person to decide on an order; `reminder`: for the second time. */
  ask(order: Order, reminder: boolean, signal: AbortSignal): Promise<void>
  /** Hands an approved order to the warehouse. */
  dispatch(order: Order, approvedBy: string, signal: AbortSignal): Promise<void>
}

/** The shop has fewer of the item than the order asks for. */
export class SoldOut extends Error {
  readonly _tag = "SoldOut"
  override readonly name = "SoldOut"
}

/** The shop could not be reached, or is busy. The step is tried again. */
export class ShopUnavailable extends Error {
  readonly _tag = "ShopUnavailable"
  override readonly name = "ShopUnavailable"
}

/** The shop refuses a request that should have been right. */
export class ShopRefused extends Error {
  readonly _tag = "ShopRefused"
  override readonly name = "ShopRefused"
}

/**
 * A shop below `url`: `PUT` and `DELETE` of `reservations/{id}` (409: sold out), `PUT` of `approvals/{id}` and of
 * `dispatches/{id}`. Fails with {@link ShopUnavailable} and {@link ShopRefused}.
 */
export const httpShop = (url: string): Shop => {
  const send = async (method: "PUT" | "DELETE", path: string, signal: AbortSignal, body?: unknown): Promise<void> => {
    const status = await answer(new URL(path, url.endsWith("/") ? url : `${url}/`), method, signal, body)
    if (status < 300 || (method === "DELETE" && status === 404)) return
    const said = `${method} ${path} was answered with ${status}`
    if (method === "PUT" && status === 409) throw new SoldOut(said)
    if (status === 408 || status === 429 || status >= 500) throw new ShopUnavailable(said)
    throw new ShopRefused(said)
  }
  return {
    reserve: ({ id, ...goods }, signal) => send("PUT", `reservations/${id}`, signal, goods),
    release: ({ id }, signal) => send("DELETE", `reservations/${id}`, signal),
    ask: ({ id, ...goods }, reminder, signal) => send("PUT", `approvals/${id}`, signal, { ...goods, reminder }),
    dispatch: ({ id, ...goods }, approvedBy, signal) =>
      send("PUT", `dispatches/${id}`, signal, { ...goods, approvedBy }),
  }
}

const answer = async (url: URL, method: string, signal: AbortSignal, body: unknown): Promise<number> => {
  try {
    const json =
      body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }
    const response = await fetch(url, { method, signal, redirect: "manual", ...json })
    await response.body?.cancel()
    return response.status
  } catch (cause) {
    signal.throwIfAborted()
    throw new ShopUnavailable(`${url.host} could not be reached`, { cause })
  }
}
