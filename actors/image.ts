/**
 * Thumbnails of pictures, in several sizes and formats, with sharp (libvips).
 *
 * ```sh
 * curl localhost:7420/v1/jobs -H 'content-type: application/json' -H 'prefer: wait=10' \
 *   -d '{"task": "image.thumbnails", "input": {"file": "cat.jpg", "sizes": [160, 640], "formats": ["webp", "avif"]}}'
 * ```
 *
 * Needs `npm install sharp zod`. Pictures are read from one folder and written below its `thumbnails`; no submitted path
 * leads elsewhere, also not through a link. The folder is `imageActor({ root })`, else the environment's `IMAGE_ROOT`, else
 * `images`. A picture of too many pixels is refused before it is decoded: a few kilobytes can unfold to gigabytes.
 *
 * Fails with `OutsideRoot`, `NoSuchFile`, `NotAnImage`, `TooManyPixels`.
 */

import { mkdir, realpath, rename, rm, stat } from "node:fs/promises"
import { dirname, isAbsolute, join, posix, relative, resolve, sep } from "node:path"
import { actor, type Job } from "callboard"
import sharp, { type Metadata } from "sharp"
import * as z from "zod"

export interface ImageOptions {
  /** Folder of the pictures. Defaults to `IMAGE_ROOT`, else `images`. */
  readonly root?: string
  /** Most pixels of a picture. Defaults to 100 million. */
  readonly maxPixels?: number
}

const FORMATS = ["webp", "avif", "jpeg", "png"] as const

const File = z.string().min(1).max(1_000).describe("Path of a picture, relative to the actor's folder")

const ThumbnailsInput = z.strictObject({
  file: File,
  sizes: z
    .array(z.int().min(1).max(4_096))
    .min(1)
    .max(20)
    .default([160, 320, 640])
    .describe("Longest sides in pixels; a picture is never enlarged"),
  formats: z.array(z.enum(FORMATS)).min(1).default(["webp"]),
  fit: z.enum(["inside", "cover"]).default("inside").describe("`cover` cuts to a square of that side"),
  quality: z.int().min(1).max(100).default(80),
  folder: z
    .string()
    .min(1)
    .max(1_000)
    .optional()
    .describe("Where to write, relative to `thumbnails`; the picture's own path if absent"),
})

const Thumbnail = z.object({
  file: z.string(),
  format: z.enum(FORMATS),
  width: z.int(),
  height: z.int(),
  bytes: z.int(),
})

export const imageActor = (options: ImageOptions = {}) =>
  actor("image", {
    description: "Thumbnails, format and size of pictures",
    start: () => {
      // One thread per picture: the worker's concurrency decides how many pictures are processed at the same time.
      sharp.concurrency(1)
      return {
        root: resolve(options.root ?? process.env["IMAGE_ROOT"] ?? "images"),
        maxPixels: options.maxPixels ?? 100_000_000,
      }
    },
    methods: {
      thumbnails: {
        description: "Writes smaller copies of a picture, upright and without its metadata",
        input: ThumbnailsInput,
        output: z.object({ thumbnails: z.array(Thumbnail) }),
        timeLimit: { soft: "2 minutes", hard: "150 seconds" },
        run: async ({ file, sizes, formats, fit, quality, folder }, job) => {
          const { root, maxPixels } = job.use
          const source = await confine(root, file)
          await readHead(source, file, maxPixels)
          // A folder for each picture: those of `a/cat.jpg` and `b/cat.png` must not replace each other.
          const place = folder ?? relative(root, resolve(root, file))
          const target = await confineFolder(join(root, "thumbnails"), place)
          const wanted = [...new Set(sizes)].flatMap((size) =>
            [...new Set(formats)].map((format) => ({ size, format })),
          )
          const thumbnails: Array<z.infer<typeof Thumbnail>> = []
          for (const { size, format } of wanted) {
            // libvips cannot be interrupted, so a cancelled job stops between two thumbnails.
            job.signal.throwIfAborted()
            const name = `${size}.${format}`
            // Written under another name and renamed when complete, so that readers never see half a picture.
            const draft = join(target, `.${name}.${job.id}`)
            try {
              const { width, height, bytes } = await resize(source, draft, {
                size,
                format,
                fit,
                quality,
                maxPixels,
                job,
              })
              await rename(draft, join(target, name))
              thumbnails.push({ file: posix.join("thumbnails", place, name), format, width, height, bytes })
            } finally {
              await rm(draft, { force: true })
            }
            job.progress(thumbnails.length / wanted.length, { file: name })
          }
          return { thumbnails }
        },
      },
      info: {
        description: "Format and size of a picture, as displayed",
        input: z.strictObject({ file: File }),
        run: async ({ file }, job) => {
          const source = await confine(job.use.root, file)
          const {
            format,
            width,
            height,
            autoOrient,
            pages = 1,
            hasAlpha,
          } = await readHead(source, file, job.use.maxPixels)
          return { format, ...autoOrient, stored: { width, height }, pages, hasAlpha, bytes: (await stat(source)).size }
        },
      },
    },
  })

export default imageActor()

interface Resize {
  readonly size: number
  readonly format: (typeof FORMATS)[number]
  readonly fit: "inside" | "cover"
  readonly quality: number
  readonly maxPixels: number
  readonly job: Pick<Job, "deadline">
}

const resize = async (source: string, target: string, { size, format, fit, quality, maxPixels, job }: Resize) => {
  const secondsLeft = Math.floor((job.deadline - Date.now()) / 1000)
  const picture = sharp(source, { limitInputPixels: maxPixels, failOn: "error" })
    .timeout({ seconds: Math.min(3_600, Math.max(1, secondsLeft)) })
    .autoOrient()
    .resize({ width: size, height: size, fit, withoutEnlargement: true })
  // JPEG has no transparency, and for PNG a quality would reduce the colours.
  if (format === "jpeg") picture.flatten({ background: "#fff" })
  const {
    width,
    height,
    size: bytes,
  } = await picture.toFormat(format, format === "png" ? {} : { quality }).toFile(target)
  return { width, height, bytes }
}

/** A file that sharp cannot read. */
class NotAnImage extends Error {
  readonly _tag = "NotAnImage"
  override readonly name = "NotAnImage"
}

class TooManyPixels extends Error {
  readonly _tag = "TooManyPixels"
  override readonly name = "TooManyPixels"
}

// Pictures made of pixels. An SVG is a program for drawing one, and may ask for other files.
const READABLE: ReadonlySet<string> = new Set(["avif", "gif", "heif", "jpeg", "png", "tiff", "webp"])

/**
 * Reads the head of a picture: what it is, before its pixels are decoded. Fails with {@link NotAnImage},
 * {@link TooManyPixels}. `name` is for messages.
 */
const readHead = async (location: string, name: string, maxPixels: number): Promise<Metadata> => {
  const head = await sharp(location, { limitInputPixels: false })
    .metadata()
    .catch((cause: unknown) => {
      throw new NotAnImage(`${name} is not a picture that can be read`, { cause })
    })
  if (!READABLE.has(head.format)) throw new NotAnImage(`${name} is ${head.format}, and not a picture made of pixels`)
  const pixels = head.width * head.height
  if (pixels > maxPixels) throw new TooManyPixels(`${name} has ${pixels} pixels; at most ${maxPixels} are allowed`)
  return head
}

/** A path that is outside the folder. */
export class OutsideRoot extends Error {
  readonly _tag = "OutsideRoot"
  override readonly name = "OutsideRoot"
}

export class NoSuchFile extends Error {
  readonly _tag = "NoSuchFile"
  override readonly name = "NoSuchFile"
}

const isInside = (root: string, location: string): boolean => {
  const path = relative(root, location)
  return path !== ".." && !path.startsWith(`..${sep}`) && !isAbsolute(path)
}

const outside = (path: string): OutsideRoot =>
  new OutsideRoot(`${path}: must be a relative path inside the actor's folder`)

/** Where an existing file really is. Fails with {@link OutsideRoot}, {@link NoSuchFile}. */
const confine = async (root: string, path: string): Promise<string> => {
  const asked = resolve(root, path)
  if (isAbsolute(path) || !isInside(root, asked)) throw outside(path)
  const real = await Promise.all([realpath(root), realpath(asked)]).catch((cause: unknown) => {
    throw new NoSuchFile(`there is no file ${path}`, { cause })
  })
  const [realRoot, location] = real
  if (!isInside(realRoot, location)) throw outside(path)
  return location
}

/** A folder to write to, made where it is missing. Fails with {@link OutsideRoot}. */
const confineFolder = async (root: string, path: string): Promise<string> => {
  const asked = resolve(root, path)
  if (isAbsolute(path) || !isInside(root, asked)) throw outside(path)
  await mkdir(root, { recursive: true })
  // Looked at before anything is made: the part that exists may be a link to elsewhere.
  let existing = asked
  while (true) {
    const location = await realpath(existing).catch(() => undefined)
    if (location !== undefined) {
      if (!isInside(await realpath(root), location)) throw outside(path)
      break
    }
    existing = dirname(existing)
  }
  await mkdir(asked, { recursive: true })
  return realpath(asked)
}
