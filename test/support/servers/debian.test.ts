/** Packages are fetched from the archive that apt is configured with, and from no other. */
import { expect, test } from "vitest"
import { debianArchive } from "./debian.ts"

test("the archive is the one that apt is configured with", () => {
  const addresses = "https://packages.example.com/tool\nfile:/srv/debian-security/\nfile:/srv/debian/\n"
  expect(debianArchive(addresses)).toBe("file:/srv/debian/")
})

test("without one there is no other: the reason says so", () => {
  for (const addresses of ["", "https://packages.example.com/ubuntu/\n"]) {
    expect(() => debianArchive(addresses)).toThrow(
      "apt on this machine is configured with no archive of Debian packages",
    )
  }
})
