/** Routes that describe the interface: the OpenAPI document, and the same for people. */
import type { Context } from "hono"
import { sampleOf } from "../options/sample.ts"
import { DEFAULT_METHOD } from "../protocol/name.ts"
import { DESCRIPTION_ROUTES } from "../routes/reference.ts"
import { withReadDeadline } from "./limits.ts"
import { type Example, REFERENCE_HEADERS, referenceOf, referenceTextOf, TEXT_HEADERS } from "./reference.ts"
import { type HttpContext, type OpenApi, type Route, served } from "./route.ts"

/** Whether submitting needs no token. The reference page never needs one, so it names actors only where this is so. */
const needsNoToken = ({ paths }: OpenApi): boolean =>
  paths["/v1/jobs"]?.["post"]?.security.some((each) => Object.keys(each).length === 0) === true

/** The first task that a live worker serves; `undefined` where there is none, or the transport does not answer. */
const exampleOf = async (context: HttpContext): Promise<Example | undefined> => {
  // While the service is still connecting there is no client to ask.
  const actors = await withReadDeadline(Promise.resolve().then(() => context.client.actors())).catch(() => [])
  for (const { name, methods } of actors) {
    const [method] = methods
    if (method === undefined) continue
    const task = method.name === DEFAULT_METHOD ? name : `${name}.${method.name}`
    const params = Object.fromEntries((method.params ?? []).map((param) => [param, 1]))
    return { task, input: method.input === undefined ? params : sampleOf(method.input) }
  }
  return undefined
}

const shownExample = async (context: HttpContext, document: OpenApi): Promise<Example | undefined> =>
  needsNoToken(document) ? exampleOf(context) : undefined

const urlOf = (c: Context, base: string): string => `${new URL(c.req.url).origin}${base}`

export const descriptionRoutes: ReadonlyArray<Route> = served(DESCRIPTION_ROUTES, {
  "GET /openapi.json": ({ context, base }) => ({ ...context.describe(base) }),
  "GET /reference": async ({ c, context, base }) => {
    const document = context.describe(base)
    return new Response(await referenceOf(document, urlOf(c, base), await shownExample(context, document)), {
      headers: REFERENCE_HEADERS,
    })
  },
  "GET /": async ({ c, context, base }) => {
    const document = context.describe(base)
    const text = referenceTextOf(document, urlOf(c, base), await shownExample(context, document))
    return new Response(text, { headers: TEXT_HEADERS })
  },
})
