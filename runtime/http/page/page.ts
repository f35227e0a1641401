/**
 * The page for browsers: a shell that is the same for everyone and holds no data, and the assets that it loads. The
 * page gets its data from the routes of this application, with the token of its reader.
 */
import { createHash } from "node:crypto"
import { gunzipSync } from "node:zlib"
import { type Context, Hono } from "hono"
import { PATHS } from "../../page/paths.ts"
import type { Asset } from "./assets.d.ts"

/**
 * Text nodes, own files, and the one style of the shell: the browser refuses everything through which the data of a job could
 * become code.
 */
const policyOf = (style: string): string =>
  `default-src 'none'; script-src 'self'; style-src 'self' '${style}'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'`

/** The hash by which the policy names the style of the shell. */
const styleHash = (shell: string): string => {
  const [, style = ""] = /<style>(.*?)<\/style>/s.exec(shell) ?? []
  return `sha256-${createHash("sha256").update(style).digest("base64")}`
}

/** Features of the browser that the page does not use: all are refused. */
const PERMISSIONS = [
  "accelerometer",
  "autoplay",
  "browsing-topics",
  "camera",
  "clipboard-read",
  "display-capture",
  "encrypted-media",
  "fullscreen",
  "gamepad",
  "geolocation",
  "gyroscope",
  "hid",
  "identity-credentials-get",
  "idle-detection",
  "local-fonts",
  "magnetometer",
  "microphone",
  "midi",
  "otp-credentials",
  "payment",
  "picture-in-picture",
  "publickey-credentials-create",
  "publickey-credentials-get",
  "screen-wake-lock",
  "serial",
  "storage-access",
  "usb",
  "window-management",
  "xr-spatial-tracking",
]

const COMMON = { "x-content-type-options": "nosniff", "cross-origin-resource-policy": "same-origin" } as const

const SHELL_HEADERS = {
  ...COMMON,
  "content-type": "text/html; charset=utf-8",
  // The browser asks each time, and gets 304 by the ETag.
  "cache-control": "no-cache",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "permissions-policy": PERMISSIONS.map((name) => `${name}=()`).join(", "),
  vary: "accept",
} as const

const UNBUILT =
  "The page is not built in this checkout: run `npm run page`. The HTTP API works; /reference describes it.\n"

export interface Built {
  readonly assets: ReadonlyMap<string, Asset>
  readonly shell: string
}

/** `undefined` where the page was not built. */
export type LoadPage = () => Promise<Built | undefined>

const loadPage: LoadPage = async () => {
  try {
    const { assets, shell } = await import("./assets.js")
    return { assets: new Map(assets.map((asset) => [asset.name, asset])), shell }
  } catch {
    // The package has the file; a checkout has it once it was built.
    return undefined
  }
}

const unbuilt = (): Response =>
  new Response(UNBUILT, { status: 503, headers: { ...COMMON, "content-type": "text/plain; charset=utf-8" } })

const attribute = (text: string): string => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;")

const etagOf = (text: string): string => `"${createHash("sha256").update(text).digest("base64url").slice(0, 22)}"`

/** Whether the client has this version already, by its `If-None-Match`. */
const isKnown = (c: Context, etag: string): boolean =>
  (c.req.header("if-none-match") ?? "").split(",").some((each) => each.trim().replace(/^W\//, "") === etag)

/**
 * The document at every address of the page. `base`: the path under which the application is mounted; `asks`: whether
 * the application wants tokens.
 */
const shellResponse = (c: Context, shell: string, base: string, asks: boolean): Response => {
  const html = shell.replaceAll("{{base}}", () => attribute(base)).replace("{{asks}}", String(asks))
  const headers = { ...SHELL_HEADERS, "content-security-policy": policyOf(styleHash(shell)), etag: etagOf(html) }
  return isKnown(c, headers.etag) ? new Response(null, { status: 304, headers }) : new Response(html, { headers })
}

const takesGzip = (accepted = ""): boolean => /(?:^|[,\s])(?:gzip|\*)(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(accepted)

const assetResponse = (c: Context, asset: Asset): Response => {
  const content = Buffer.from(asset.gzip, "base64")
  const headers = {
    ...COMMON,
    "content-type": asset.type,
    // Its name changes with its content.
    "cache-control": "public, max-age=31536000, immutable",
    vary: "accept-encoding",
  }
  return takesGzip(c.req.header("accept-encoding"))
    ? new Response(content, { headers: { ...headers, "content-encoding": "gzip" } })
    : new Response(gunzipSync(content), { headers })
}

/** The part of a path before an address of the page: where the application is mounted, whose root has no slash at the end. */
const baseOf = (pathname: string, path: string): string =>
  path === "/"
    ? pathname.replace(/\/$/, "")
    : pathname
        .split("/")
        .slice(0, 1 - path.split("/").length)
        .join("/")

/**
 * The addresses of the page, and its assets. Each address is a route of its own, so that every other path stays a 404.
 * At `/` the page is for browsers: other programs get the text about the interface. `admit` throws where a request must
 * not be answered; `asks`: whether the application wants tokens. The page is loaded at the first request for it, so that a
 * service whose page is never opened does not hold it in memory.
 */
export const pageRoutes = (admit: (request: Request) => void, asks: boolean, load: LoadPage = loadPage): Hono => {
  let loading: Promise<Built | undefined> | undefined
  const page = () => {
    loading ??= load()
    return loading
  }
  const app = new Hono()
  for (const path of Object.values(PATHS)) {
    app.get(path, async (c, next) => {
      if (path === PATHS.overview && !(c.req.header("accept") ?? "").includes("text/html")) return next()
      admit(c.req.raw)
      const built = await page()
      if (built === undefined) return unbuilt()
      return shellResponse(c, built.shell, baseOf(new URL(c.req.url).pathname, path), asks)
    })
  }
  app.get("/assets/:name", async (c, next) => {
    admit(c.req.raw)
    const asset = (await page())?.assets.get(c.req.param("name"))
    return asset === undefined ? next() : assetResponse(c, asset)
  })
  return app
}
