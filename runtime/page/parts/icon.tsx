/** Icons, and the shapes of states: each state has a shape of its own, so that it can be told apart without colours. */
import type { JSX } from "preact"

const ICONS = {
  overview: "M2 9h2.6l1.8-5 3 9 1.9-5.2H14",
  jobs: "M2.5 4h11M2.5 8h11M2.5 12h7",
  errors: "M8 2.2 14.3 13H1.7zM8 6.4v3M8 11.2v.1",
  queues:
    "M3 3h10a1 1 0 0 1 1 1v1a1 1 0 0 1 -1 1h-10a1 1 0 0 1 -1 -1v-1a1 1 0 0 1 1 -1zM3 8h6.5a1 1 0 0 1 1 1v1a1 1 0 0 1 -1 1h-6.5a1 1 0 0 1 -1 -1v-1a1 1 0 0 1 1 -1zM2.5 13.5h4",
  workers:
    "M5.5 4h5a1.5 1.5 0 0 1 1.5 1.5v5a1.5 1.5 0 0 1 -1.5 1.5h-5a1.5 1.5 0 0 1 -1.5 -1.5v-5a1.5 1.5 0 0 1 1.5 -1.5zM6.5 1.8V4M9.5 1.8V4M6.5 12v2.2M9.5 12v2.2M1.8 6.5H4M1.8 9.5H4M12 6.5h2.2M12 9.5h2.2",
  schedules: "M2 8a6 6 0 1 0 12 0a6 6 0 1 0 -12 0zM8 4.6V8l2.4 1.6",
  dead: "M4.5 2.5h7a2 2 0 0 1 2 2v7a2 2 0 0 1 -2 2h-7a2 2 0 0 1 -2 -2v-7a2 2 0 0 1 2 -2zM6 6l4 4M10 6l-4 4",
  api: "M5.5 4 2 8l3.5 4M10.5 4 14 8l-3.5 4",
  search: "M2.7 7a4.3 4.3 0 1 0 8.6 0a4.3 4.3 0 1 0 -8.6 0zM10.3 10.3l3.4 3.4",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.3 12.5 8 5 12.7z",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5V5h-2.5",
  x: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5l3.3 3.3L13 5",
  copy: "M7 5.5h5a1.5 1.5 0 0 1 1.5 1.5v5a1.5 1.5 0 0 1 -1.5 1.5h-5a1.5 1.5 0 0 1 -1.5 -1.5v-5a1.5 1.5 0 0 1 1.5 -1.5zM3.5 10.5h-.3a.9.9 0 0 1-.9-.9V3.3a.9.9 0 0 1 .9-.9h6.3a.9.9 0 0 1 .9.9v.2",
  right: "M6 3.5l4.5 4.5L6 12.5",
  down: "M3.5 6l4.5 4.5L12.5 6",
  left: "M10 3.5 5.5 8l4.5 4.5",
  dots: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  plus: "M8 3v10M3 8h10",
  trash: "M3 4.5h10M6.5 4V2.5h3V4M4.5 4.5l.6 9h5.8l.6-9",
  filter: "M2.5 4h11M4.5 8h7M6.5 12h3",
  cols: "M4 3h8a1.5 1.5 0 0 1 1.5 1.5v7a1.5 1.5 0 0 1 -1.5 1.5h-8a1.5 1.5 0 0 1 -1.5 -1.5v-7a1.5 1.5 0 0 1 1.5 -1.5zM6.5 3v10M10 3v10",
  key: "M2.5 10.5a3 3 0 1 0 6 0a3 3 0 1 0 -6 0zM7.7 8.3l5.6-5.6M11 5l2 2",
  more: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  wifi: "M2 2l12 12M5 9.8a4.5 4.5 0 0 1 2.2-1.2M11 9.8l-.7-.6M2.5 7a8 8 0 0 1 2.8-1.9M13.5 7A8 8 0 0 0 8 4.7M8 12.5v.01",
  lock: "M5 7h6a1.5 1.5 0 0 1 1.5 1.5v3.5a1.5 1.5 0 0 1 -1.5 1.5h-6a1.5 1.5 0 0 1 -1.5 -1.5v-3.5a1.5 1.5 0 0 1 1.5 -1.5zM5.5 7V5a2.5 2.5 0 0 1 5 0v2",
  theme: "M2 8a6 6 0 1 0 12 0a6 6 0 1 0 -12 0zM8 2v12M8 5l4.7-.5M8 8h6M8 11l4.7.5",
} as const

export type IconName = keyof typeof ICONS

export const Icon = ({ name, class: more = "" }: { readonly name: IconName; readonly class?: string }): JSX.Element => (
  <svg class={`i ${more}`} viewBox="0 0 16 16" aria-hidden="true">
    <path d={ICONS[name]} />
  </svg>
)

type Shape = readonly [kind: string, d: string, look?: string]

const GLYPHS = {
  deferred: [["o", "M7 1.6 12.4 7 7 12.4 1.6 7z"]],
  scheduled: [
    ["o", "M1.7 7a5.3 5.3 0 1 0 10.6 0a5.3 5.3 0 1 0 -10.6 0z"],
    ["o", "M7 4.2V7l2 1.3"],
  ],
  queued: [["o", "M1.7 7a5.3 5.3 0 1 0 10.6 0a5.3 5.3 0 1 0 -10.6 0z", "dash"]],
  started: [
    ["o", "M1.7 7a5.3 5.3 0 1 0 10.6 0a5.3 5.3 0 1 0 -10.6 0z", "faint"],
    ["o", "M7 1.7a5.3 5.3 0 0 1 5.3 5.3"],
    ["f", "M4.8 7a2.2 2.2 0 1 0 4.4 0a2.2 2.2 0 1 0 -4.4 0z"],
  ],
  succeeded: [
    ["f", "M.8 7a6.2 6.2 0 1 0 12.4 0a6.2 6.2 0 1 0 -12.4 0z"],
    ["k", "M4.3 7.2l1.9 1.9 3.5-3.9"],
  ],
  failed: [
    ["f", "M.8 7a6.2 6.2 0 1 0 12.4 0a6.2 6.2 0 1 0 -12.4 0z"],
    ["k", "M4.9 4.9l4.2 4.2M9.1 4.9 4.9 9.1"],
  ],
  retrying: [["o", "M12 7a5 5 0 1 1-1.6-3.7M12 1.6v2.3H9.7"]],
  cancelled: [
    ["o", "M1.7 7a5.3 5.3 0 1 0 10.6 0a5.3 5.3 0 1 0 -10.6 0z"],
    ["o", "M3.4 10.6l7.2-7.2"],
  ],
  expired: [
    [
      "o",
      "M3.5 1.7h7M3.5 12.3h7M4.2 1.7c0 3.3 2.8 3.6 2.8 5.3s-2.8 2-2.8 5.3M9.8 1.7c0 3.3-2.8 3.6-2.8 5.3s2.8 2 2.8 5.3",
    ],
  ],
  dead: [
    [
      "f",
      "M3.5 1h7a2.5 2.5 0 0 1 2.5 2.5v7a2.5 2.5 0 0 1 -2.5 2.5h-7a2.5 2.5 0 0 1 -2.5 -2.5v-7a2.5 2.5 0 0 1 2.5 -2.5z",
    ],
    ["k", "M4.8 4.8l4.4 4.4M9.2 4.8 4.8 9.2"],
  ],
  warn: [
    ["f", "M7 .9 13.6 12.6H.4z"],
    ["k", "M7 5v3.3M7 10.3v.1"],
  ],
} as const satisfies Readonly<Record<string, ReadonlyArray<Shape>>>

export type GlyphName = keyof typeof GLYPHS

export const WORDS: Readonly<Record<GlyphName, string>> = {
  deferred: "Deferred",
  scheduled: "Scheduled",
  queued: "Queued",
  started: "Running",
  succeeded: "Succeeded",
  failed: "Failed",
  retrying: "Retrying",
  cancelled: "Cancelled",
  expired: "Expired",
  dead: "Dead",
  warn: "Warning",
}

export const isGlyph = (name: string): name is GlyphName => Object.hasOwn(GLYPHS, name)

const shapes = (name: GlyphName): ReadonlyArray<JSX.Element> =>
  (GLYPHS[name] satisfies ReadonlyArray<Shape>).map(([kind, d, look]: Shape) => (
    <path class={look === undefined ? kind : `${kind} ${look}`} d={d} />
  ))

/** The shape of a state. `label`: its text for screen readers. */
export const Glyph = ({ name, label }: { readonly name: GlyphName; readonly label?: string }): JSX.Element => {
  const look = `g s-${name === "warn" ? "expired" : name}`
  return label === undefined ? (
    <svg class={look} viewBox="0 0 14 14" aria-hidden="true">
      {shapes(name)}
    </svg>
  ) : (
    <svg class={look} viewBox="0 0 14 14" role="img" aria-label={label}>
      {shapes(name)}
    </svg>
  )
}

/** A state as shape, word and colour. A newer server may report states that this page does not know. */
export const StateWord = ({ name, word }: { readonly name: string; readonly word?: string }): JSX.Element =>
  isGlyph(name) ? (
    <span class={`st s-${name}`}>
      <svg viewBox="0 0 14 14" aria-hidden="true">
        {shapes(name)}
      </svg>
      {word ?? WORDS[name]}
    </span>
  ) : (
    <span class="st">{word ?? name}</span>
  )
