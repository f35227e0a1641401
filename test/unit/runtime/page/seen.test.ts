/** What cannot be seen is written out, wherever the page shows text. */
import fc from "fast-check"
import { h } from "preact"
import { describe, expect, test } from "vitest"
import { guard } from "../../../../runtime/page/guard.ts"
import { seen } from "../../../../runtime/page/seen.ts"

test.each([
  ["safe\u202egnp.exe", "safe\\u202egnp.exe"],
  ["a\u200bb\u200c\u200d\u2060\ufeff", "a\\u200bb\\u200c\\u200d\\u2060\\ufeff"],
  ["\u0000\u001b[31m\u007f\u0085", "\\u0000\\u001b[31m\\u007f\\u0085"],
  ["\u2028\u2029", "\\u2028\\u2029"],
  ["\ud800x", "\\ud800x"],
  ["\u{e0041}\ufe0f\u3164", "\\u{e0041}\\ufe0f\\u3164"],
  ["line\n\tat", "line\n\tat"],
  ["Grüße, 你好, שלום, 🙂", "Grüße, 你好, שלום, 🙂"],
  ["<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
])("%j is shown as %j", (text, shown) => {
  expect(seen(text)).toBe(shown)
})

test("nothing is left that changes how other text is read, and a second look changes nothing", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      const shown = seen(text)
      expect(shown).not.toMatch(/[^\n\t\P{Cc}]|\p{Cf}|\p{Zl}|\p{Zp}|\p{Cs}/u)
      expect(seen(shown)).toBe(shown)
    }),
  )
})

describe("an element", () => {
  const guarded = ({ type, props }: { readonly type: unknown; readonly props: object }) => {
    const shown: Record<string, unknown> = { ...props }
    guard(type, shown)
    return shown
  }
  const HOSTILE = "a\u202eb"
  const SEEN = "a\\u202eb"

  test("shows its text so, however deep it lies in its children", () => {
    expect(guarded(h("p", null, HOSTILE)).children).toBe(SEEN)
    expect(guarded(h("p", null, 1, [HOSTILE, [HOSTILE]], null)).children).toEqual([1, [SEEN, [SEEN]], null])
    expect(guarded(h(() => null, null, HOSTILE)).children).toBe(SEEN)
  })

  test("has attributes that are read out so, and fields with what was written into them", () => {
    const shown = { title: HOSTILE, "aria-label": HOSTILE, placeholder: HOSTILE }
    expect(guarded(h("input", { ...shown, value: HOSTILE }))).toEqual({
      title: SEEN,
      "aria-label": SEEN,
      placeholder: SEEN,
      value: HOSTILE,
    })
  })
})
