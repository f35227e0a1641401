/**
 * Releases the version that package.json names, to npm and JSR: `npm run release`. Checks that version, tag and changelog agree and
 * that no dependency has a known vulnerability; then npm and Deno check what they would publish. Only with `--publish` they publish,
 * which is refused outside of the release workflow, because only there provenance can be attested.
 *
 * `--tag` names the tag of the release, `v` and the version by default; `--tarball` names the packed package, which is
 * packed by default. Plain JavaScript, because Node alone runs it.
 */

import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { parseArgs } from "node:util"
import { findDeno } from "./deno.js"
import { makeJsrPackage } from "./jsr.js"

const { values: options } = parseArgs({
  options: {
    publish: { type: "boolean", default: false },
    tag: { type: "string" },
    tarball: { type: "string" },
  },
})

/** @param {string} path from the root of the checkout, where npm starts its scripts */
const read = (path) => readFileSync(path, "utf8")
const { name, version } = JSON.parse(read("package.json"))
const tag = options.tag ?? `v${version}`

/** @param {string} line */
const say = (line) => process.stdout.write(`${line}\n`)

/** @param {string} command @param {readonly string[]} args */
const output = (command, args) => spawnSync(command, args, { encoding: "utf8", maxBuffer: 1e8 })

/** @param {string} command @param {readonly string[]} args @param {string} [cwd] @returns {readonly string[]} faults */
function run(command, args, cwd) {
  say(`$ ${command} ${args.join(" ")}`)
  const { status, error } = spawnSync(command, args, { stdio: "inherit", cwd })
  return status === 0 ? [] : [`${command} ${args[0]} ended with ${error?.message ?? status}`]
}

/** What names another version than package.json, or none. @returns {readonly string[]} */
function disagreements() {
  const locked = JSON.parse(read("package-lock.json")).version
  const [heading] = read("CHANGELOG.md").match(/^## (?!Unreleased$).*$/m) ?? []
  const [, released] = /^## \[?(\d[^\s\]]*)\]? - \d{4}-\d\d-\d\d$/.exec(heading ?? "") ?? []
  return [
    ...(tag === `v${version}` ? [] : [`the tag is ${tag}, but package.json has version ${version}: tag v${version}`]),
    ...(locked === version ? [] : [`package-lock.json has version ${locked}, not ${version}: run npm install`]),
    ...(released === version
      ? []
      : [
          `the newest version in CHANGELOG.md is ${heading ?? "missing"}: add the heading \`## ${version} - YYYY-MM-DD\``,
        ]),
  ]
}

/** What differs from a clean checkout of the tag in the release workflow. @returns {readonly string[]} */
function placeFaults() {
  const tags = output("git", ["tag", "--points-at", "HEAD"]).stdout.split("\n")
  return [
    ...(process.env.ACTIONS_ID_TOKEN_REQUEST_URL === undefined
      ? ["only the release workflow publishes, since provenance needs its identity: push the tag"]
      : []),
    ...(tags.includes(tag) ? [] : [`the tag ${tag} does not name this commit`]),
    ...(output("git", ["status", "--porcelain"]).stdout === "" ? [] : ["the checkout has uncommitted changes"]),
  ]
}

/** Known vulnerabilities of the packages that an installation gets. @returns {readonly string[]} */
function vulnerabilities() {
  const { stdout, stderr } = output("npm", ["audit", "--omit=dev", "--json"])
  /** @type {{ vulnerabilities?: Record<string, { severity: string, via: ReadonlyArray<string | { title: string, url: string }> }> }} */
  let report = {}
  try {
    report = JSON.parse(stdout)
  } catch {
    // Without a report the audit has not been made, which is said below.
  }
  if (report.vulnerabilities === undefined) {
    const reason = /npm error (?!code)(.*)/.exec(stderr)?.[1] ?? "no report"
    if (options.publish) return [`npm audit could not be made (${reason}): run the workflow again`]
    say(`not checked: known vulnerabilities, because npm audit could not be made (${reason})`)
    return []
  }
  return Object.entries(report.vulnerabilities).map(([dependency, { severity, via }]) => {
    const reasons = via.map((each) => (typeof each === "string" ? `by ${each}` : `${each.title}, ${each.url}`))
    return `${dependency} has a vulnerability (${severity}): ${reasons.join("; ")}`
  })
}

/** Publishes to npm, unless an earlier run has done so. @param {string} tarball @returns {readonly string[]} */
function toNpm(tarball) {
  // npm publishes a version such as 0.2.0-rc.1 only under a name of its own: `npm install callboard` must not choose it.
  const channel = version.includes("-") ? ["--tag", "next"] : []
  if (!options.publish) return run("npm", ["publish", "--loglevel", "warn", "--dry-run", ...channel, tarball])
  const published = output("npm", ["view", `${name}@${version}`, "version"]).stdout.trim()
  if (published !== version) return run("npm", ["publish", ...channel, tarball])
  say(`${name} ${version} is on npm already`)
  return []
}

/**
 * Publishes the client over HTTP to JSR, which does nothing if an earlier run has done so.
 *
 * @param {string} tarball @param {string} folder @returns {readonly string[]} faults
 */
function toJsr(tarball, folder) {
  const unpacked = run("tar", ["-xzf", tarball, "-C", folder])
  if (unpacked.length > 0) return unpacked
  const target = join(folder, "jsr")
  mkdirSync(target)
  makeJsrPackage(join(folder, "package"), target)
  return run(findDeno(), ["publish", "--quiet", "--allow-dirty", ...(options.publish ? [] : ["--dry-run"])], target)
}

/** @param {string} folder for the packages @returns {readonly string[]} faults */
function release(folder) {
  const faults = [...disagreements(), ...(options.publish ? placeFaults() : []), ...vulnerabilities()]
  if (faults.length > 0) return faults
  const packed = options.tarball === undefined ? run("npm", ["pack", "--silent", "--pack-destination", folder]) : []
  if (packed.length > 0) return packed
  const tarball = resolve(options.tarball ?? join(folder, `${name}-${version}.tgz`))
  const npmFaults = toNpm(tarball)
  return npmFaults.length > 0 ? npmFaults : toJsr(tarball, folder)
}

const folder = mkdtempSync(join(tmpdir(), "callboard-release-"))
try {
  const faults = release(folder)
  for (const fault of faults) process.stderr.write(`release: ${fault}\n`)
  if (faults.length === 0) say(options.publish ? `released ${version}` : `${version} can be released`)
  process.exitCode = faults.length === 0 ? 0 : 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
