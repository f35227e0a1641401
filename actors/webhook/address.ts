/** Decides to which addresses webhooks are sent, so that no task can make the worker call hosts of its own network. */
import { type LookupAddress, lookup } from "node:dns"
import type { LookupFunction } from "node:net"
import { isIP } from "node:net"
import ipaddr from "ipaddr.js"

/** An address that is not public, and not allowed by the configuration. */
export class AddressRefused extends Error {
  readonly _tag = "AddressRefused"
  override readonly name = "AddressRefused"
}

export interface AddressGuard {
  /** Throws {@link AddressRefused} for a host that is an address, and one to refuse. */
  checkHost(host: string): void
  /** Resolves a name as the system does, and fails with {@link AddressRefused} if any of its addresses is to refuse. */
  readonly lookup: LookupFunction
}

/** `[::a.b.c.d]`, a form that is not used any more: a system may still connect it to the IPv4 address in it. */
const IPV4_COMPATIBLE = ipaddr.parseCIDR("::/96")

/** `allow`: networks in CIDR notation. Throws on one that cannot be read. */
export const addressGuard = (allow: ReadonlyArray<string>): AddressGuard => {
  const networks = allow.map((network) => {
    try {
      return ipaddr.parseCIDR(network)
    } catch (cause) {
      throw new Error(`${network} is not a network such as 10.1.0.0/16`, { cause })
    }
  })
  const check = (host: string, text: string): void => {
    // An IPv4 address mapped into IPv6 is checked as the IPv4 address.
    const address = ipaddr.process(text)
    const range = address.kind() === "ipv6" && address.match(IPV4_COMPATIBLE) ? "ipv4Compatible" : address.range()
    if (range === "unicast") return
    const allowed = networks.some(
      ([network, bits]) => network.kind() === address.kind() && address.match(network, bits),
    )
    if (!allowed) throw new AddressRefused(`${host} is ${address.toString()} (${range}), which is not public`)
  }
  return {
    checkHost: (host) => {
      const address = host.replace(/^\[|\]$/g, "")
      if (isIP(address) !== 0) check(host, address)
    },
    // The request connects to the addresses that are checked here: a name that is resolved again for the connection could
    // give another address the second time.
    lookup: (host, options, done) => {
      lookup(host, { ...options, all: true }, (error, addresses: ReadonlyArray<LookupAddress>) => {
        if (error !== null) return done(error, [])
        try {
          for (const { address } of addresses) check(host, address)
        } catch (refused) {
          return done(refused instanceof Error ? refused : new Error(String(refused)), [])
        }
        const [first] = addresses
        if (options.all || first === undefined) done(null, [...addresses])
        else done(null, first.address, first.family)
      })
    },
  }
}
