/**
 * Credentials and certificates on real servers, with the right and the wrong password, key and authority: the error names
 * the cause, and no password is shown.
 */
import { execFileSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { connect } from "callboard"
import { nkeys } from "nats"
import { beforeAll, describe, expect, test } from "vitest"
import { lineOf } from "../../../../runtime/cli/failure.ts"
import { displayUrl } from "../../../../runtime/connection/connect.ts"
import { keep } from "../../../support/servers/keep.ts"
import { startNats } from "../../../support/servers/nats.ts"
import { removeAtEnd, temporaryFolder } from "../../../support/servers/process.ts"

/** What the command line prints when it cannot connect; `undefined` when it can. */
const said = async (url: string): Promise<string | undefined> => {
  try {
    await using client = await connect(url, { timeout: 3 })
    await client.workers()
    return undefined
  } catch (error) {
    return lineOf(error)
  }
}

const folder = temporaryFolder().path
const file = (name: string): string => join(folder, name)

const openssl = (...args: ReadonlyArray<string>): void => {
  execFileSync("openssl", [...args], { cwd: folder, stdio: "pipe" })
}

/** An authority of its own. */
const makeAuthority = (name: string): void =>
  openssl(
    "req",
    "-x509",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-days",
    "2",
    "-subj",
    `/CN=${name}`,
    "-keyout",
    `${name}.key`,
    "-out",
    `${name}.pem`,
  )

/** A certificate that an authority has signed, for a server at 127.0.0.1 or a client. */
const makeCertificate = (name: string, authority: string, host = "IP:127.0.0.1"): void => {
  openssl(
    "req",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-subj",
    `/CN=${name}`,
    "-keyout",
    `${name}.key`,
    "-out",
    `${name}.csr`,
  )
  writeFileSync(file(`${name}.ext`), `subjectAltName=${host}\nextendedKeyUsage=serverAuth,clientAuth\n`)
  openssl(
    "x509",
    "-req",
    "-in",
    `${name}.csr`,
    "-CA",
    `${authority}.pem`,
    "-CAkey",
    `${authority}.key`,
    "-CAcreateserial",
    "-days",
    "2",
    "-extfile",
    `${name}.ext`,
    "-out",
    `${name}.pem`,
  )
}

beforeAll(() => {
  removeAtEnd(folder)
  makeAuthority("ours")
  makeAuthority("theirs")
  makeCertificate("server", "ours")
  makeCertificate("elsewhere", "ours", "DNS:elsewhere.example")
  makeCertificate("client", "ours")
  makeCertificate("stranger", "theirs")
})

const tlsOf = (certificate: string, more = ""): string =>
  `tls { cert_file: "${file(`${certificate}.pem`)}", key_file: "${file(`${certificate}.key`)}", ${more} }`

describe("a password, a token and a key", () => {
  const user = nkeys.createUser()
  const stranger = nkeys.createUser()
  beforeAll(() => {
    writeFileSync(file("seed"), user.getSeed())
    writeFileSync(file("other-seed"), stranger.getSeed())
    writeFileSync(file("token"), "t0ken\n")
    writeFileSync(file("other-token"), "an0ther\n")
    writeFileSync(file("no-seed"), "SUnothing\n")
  })

  const refused =
    /^cannot connect to 127\.0\.0\.1:\d+: the server refuses the credentials .*; check user and password, token or key$/

  test("let in when they are right, and are named when they are wrong", { timeout: 60_000 }, async () => {
    const cases = [
      { config: `users: [{ user: zoe, password: "s3cret" }]`, right: "zoe:s3cret@", wrong: "zoe:wr0ng@" },
      {
        config: `users: [{ nkey: ${user.getPublicKey()} }]`,
        right: `?nkey=${file("seed")}`,
        wrong: `?nkey=${file("other-seed")}`,
      },
      { config: "token: t0ken", right: `?tokenFile=${file("token")}`, wrong: `?tokenFile=${file("other-token")}` },
    ]
    for (const { config, right, wrong } of cases) {
      const server = keep(await startNats({ config: `authorization { ${config} }` }))
      const at = (credentials: string): string =>
        credentials.startsWith("?") ? `${server.url}${credentials}` : server.url.replace("//", `//${credentials}`)
      expect(await said(at(right))).toBeUndefined()
      for (const each of [at(wrong), server.url]) {
        const message = await said(each)
        expect(message).toMatch(refused)
        expect(message).not.toMatch(/wr0ng|zoe|an0ther|running/)
      }
    }
  })

  test("a file that holds no key says so, and not what it holds", async () => {
    const message = await said(`nats://127.0.0.1:1?nkey=${file("no-seed")}`)
    expect(message).toMatch(/nkey.*(seed|key)/)
    expect(message).not.toMatch(/SUnothing/)
  })

  test("are not shown of a list of servers", { timeout: 30_000 }, async () => {
    const urls = [
      "nats://zoe:s3cret@127.0.0.1:1,127.0.0.1:2",
      "nats://zoe:s3cret@127.0.0.1:1,zoe:s3cret@127.0.0.1:2",
      "nats://zoe:s3cret@127.0.0.1:1,nats://zoe:s3cret@127.0.0.1:2",
      "nats://zoe:s3cret@127.0.0.1:1?servers=zoe:s3cret@127.0.0.1:2",
    ]
    for (const url of urls) {
      expect(displayUrl(url)).not.toMatch(/s3cret|zoe/)
      expect(await said(url)).not.toMatch(/s3cret|zoe/)
    }
    for (const url of urls.slice(1)) expect(await said(url)).toMatch(/user and password once, before the first server/)
  })
})

describe("TLS", () => {
  test("the certificate of a known authority is accepted, that of another is named", { timeout: 60_000 }, async () => {
    const server = keep(await startNats({ config: tlsOf("server") }))
    const url = server.url.replace("nats:", "tls:")
    expect(await said(`${url}?tlsCa=${file("ours.pem")}`)).toBeUndefined()
    for (const query of ["", `?tlsCa=${file("theirs.pem")}`]) {
      const message = await said(url + query)
      expect(message).toMatch(/certificate.*tlsCa/)
      expect(message).not.toMatch(/running/)
    }
  })

  test("a certificate for another host is named", { timeout: 30_000 }, async () => {
    const server = keep(await startNats({ config: tlsOf("elsewhere") }))
    expect(await said(`${server.url.replace("nats:", "tls:")}?tlsCa=${file("ours.pem")}`)).toMatch(/certificate/)
  })

  test("before the greeting, where both want that", { timeout: 30_000 }, async () => {
    const server = keep(await startNats({ config: tlsOf("server", "handshake_first: true"), greets: false }))
    expect(await said(`${server.url.replace("nats:", "tls:")}?tlsFirst&tlsCa=${file("ours.pem")}`)).toBeUndefined()
  })

  test("of clients that show a certificate, only those of a known authority come in", { timeout: 60_000 }, async () => {
    const server = keep(await startNats({ config: tlsOf("server", `verify: true, ca_file: "${file("ours.pem")}"`) }))
    const url = `${server.url.replace("nats:", "tls:")}?tlsCa=${file("ours.pem")}`
    const by = (name: string): string => `${url}&tlsCert=${file(`${name}.pem`)}&tlsKey=${file(`${name}.key`)}`
    expect(await said(by("client"))).toBeUndefined()
    for (const each of [by("stranger"), url]) expect(await said(each)).toMatch(/certificate.*tlsCert/)
  })
})
