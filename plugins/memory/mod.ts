/**
 * The transport inside one process: nothing survives its end. The reference for plugin authors and the default of
 * tests. `memory:` and `memory://name` with the same name and namespace are one board.
 */
import { checkOptions } from "../../runtime/transport/checks.ts"
import type { Plugin } from "../../runtime/transport/driver.ts"
import { capabilities, MemoryDriver, Place } from "./driver.ts"

export { capabilities }

const places = new Map<string, Place>()

/** The board behind a URL and a namespace: for tests that look behind the contract. */
export const placeOf = (url: URL, namespace: string): Place => {
  const key = `${url.host}${url.pathname} ${namespace}`
  const place = places.get(key) ?? new Place()
  places.set(key, place)
  return place
}

export const plugin: Plugin = {
  schemes: ["memory"],
  connect: async (url, options) => {
    checkOptions(options)
    return new MemoryDriver(placeOf(url, options.namespace), options)
  },
}

export default plugin
