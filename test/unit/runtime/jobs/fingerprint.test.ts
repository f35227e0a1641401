/** The cause of a failure: what is the same for jobs that failed alike. */
import { describe, expect, test } from "vitest"
import { fingerprintOf, frameOf, templateOf } from "../../../../runtime/jobs/outcome/fingerprint.ts"
import { jobError } from "../../../../runtime/jobs/outcome/job-error.ts"

test.each([
  ["order 4711 is not there", "order <n> is not there"],
  ["order -5 took 1.250,3 s", "order <n> took <n> s"],
  ["job 0199c1b2-7d4e-7a3b-8f00-1234567890ab failed", "job <uuid> failed"],
  ["blob 9f86d081884c7d65 at 0xdeadbeef1", "blob <hex> at <hex>"],
  ["user \"Ann's\" said `hi` and 'no'", "user <text> said <text> and <text>"],
  ["can't reach it, won't try", "can't reach it, won't try"],
  ["mail to ann.smith+x@example.co.uk bounced", "mail to <email> bounced"],
  ["GET (https://example.com/a?b=c) answered 503", "GET <url> answered <n>"],
  ["usr_8f3kd93kx has\n  no   card", "usr_<id> has no card"],
  ["due 2026-01-31T12:00:00Z", "due <n><n><n>T<n>Z"],
  ["", ""],
])("%j becomes %j", (message, template) => {
  expect(templateOf(message)).toBe(template)
})

describe("a fingerprint", () => {
  const failure = (message: string, traceback?: string) =>
    fingerprintOf({ name: "TypeError", message, reason: "handler", ...(traceback === undefined ? {} : { traceback }) })

  test("is 8 hexadecimal digits, of name, reason, template and frame", () => {
    expect(failure("order 1 is not there")).toMatch(/^[0-9a-f]{8}$/)
    expect(failure("order 1 is not there")).toBe(failure("order 22 is not there"))
    expect(failure("order 1 is not there")).not.toBe(failure("order 1 is there"))
    expect(fingerprintOf({ name: "A", message: "x", reason: "timeout" })).not.toBe(
      fingerprintOf({ name: "A", message: "x", reason: "handler" }),
    )
  })

  test("does not change with the line, and does with the function and the file", () => {
    const at = (frame: string) => failure("x", `TypeError: x\n    at ${frame}\n    at next (/app/b.ts:1:1)`)
    expect(at("send (/app/mailer.ts:10:5)")).toBe(at("send (/app/mailer.ts:99:1)"))
    expect(at("send (/srv/releases/7/mailer.ts:10:5)")).toBe(at("send (/srv/releases/8/mailer.ts:10:5)"))
    expect(at("send (/app/mailer.ts:10:5)")).not.toBe(at("sent (/app/mailer.ts:10:5)"))
    expect(at("send (/app/mailer.ts:10:5)")).not.toBe(at("send (/app/other.ts:10:5)"))
  })

  test("names the frame as a path below the folder of the process", () => {
    const { traceback = "" } = jobError(new Error("x"))
    expect(frameOf({ traceback })).toContain("test/unit/runtime/jobs/fingerprint.test.ts")
    expect(frameOf({ traceback: "Error: x\n    at file:///app/a.ts:3:4" })).toBe("a.ts")
    expect(frameOf({ traceback: "no frames" })).toBeUndefined()
    expect(frameOf({})).toBeUndefined()
  })

  test("is made of hostile text in a time that grows with its length", () => {
    for (const pump of ["'", '"a', "1.", "a@", "a.b@", "http://", "-", "0x", "a'", "\u0000", "〱", "((", "1a"]) {
      const error = {
        name: pump.repeat(255),
        message: pump.repeat(100_000),
        reason: "handler",
        traceback: `at ${pump.repeat(100_000)}`,
      }
      const began = performance.now()
      expect(fingerprintOf(error)).toMatch(/^[0-9a-f]{8}$/)
      expect(performance.now() - began).toBeLessThan(2_000)
    }
  })
})
