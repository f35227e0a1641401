import { expect, test } from "vitest"
import { pageLink } from "../../../../runtime/cli/dev/process.ts"

test("the link to the page brings the token that may do most, behind a sign that no server gets to see", () => {
  expect(pageLink("http://127.0.0.1:7420")).toBe("http://127.0.0.1:7420/")
  const tokens = [
    { token: "submits", scopes: ["submit"] },
    { token: "reads", scopes: ["read"] },
    { token: "a&b#c", scopes: ["admin"] },
  ] as const
  expect(pageLink("http://127.0.0.1:7420", tokens)).toBe("http://127.0.0.1:7420/#token=a%26b%23c")
  expect(pageLink("http://127.0.0.1:7420", tokens.slice(0, 1))).toBe("http://127.0.0.1:7420/")
})
