/** Reads the head of a picture: what it is, before its pixels are decoded. */
import sharp, { type Metadata } from "sharp"

/** A file that sharp cannot read. */
export class NotAnImage extends Error {
  readonly _tag = "NotAnImage"
  override readonly name = "NotAnImage"
}

export class TooManyPixels extends Error {
  readonly _tag = "TooManyPixels"
  override readonly name = "TooManyPixels"
}

// Pictures made of pixels. An SVG is a program for drawing one, and may ask for other files.
const FORMATS: ReadonlySet<string> = new Set(["avif", "gif", "heif", "jpeg", "png", "tiff", "webp"])

/** Fails with {@link NotAnImage}, {@link TooManyPixels}. `name` is for messages. */
export const readHead = async (location: string, name: string, maxPixels: number): Promise<Metadata> => {
  const head = await sharp(location, { limitInputPixels: false })
    .metadata()
    .catch((cause: unknown) => {
      throw new NotAnImage(`${name} is not a picture that can be read`, { cause })
    })
  if (!FORMATS.has(head.format)) throw new NotAnImage(`${name} is ${head.format}, and not a picture made of pixels`)
  const pixels = head.width * head.height
  if (pixels > maxPixels) throw new TooManyPixels(`${name} has ${pixels} pixels, and ${maxPixels} are allowed`)
  return head
}
