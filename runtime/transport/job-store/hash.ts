/** A hash of 62 bits as 1 to 14 letters and digits, the same in every process (cyrb53). Not cryptographic. */
export const hash = (text: string): string => {
  let one = 0xdeadbeef
  let two = 0x41c6ce57
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    one = Math.imul(one ^ unit, 2654435761)
    two = Math.imul(two ^ unit, 1597334677)
  }
  one = Math.imul(one ^ (one >>> 16), 2246822507) ^ Math.imul(two ^ (two >>> 13), 3266489909)
  two = Math.imul(two ^ (two >>> 16), 2246822507) ^ Math.imul(one ^ (one >>> 13), 3266489909)
  // 31 bits each, since larger numbers take much longer to print.
  return (one >>> 1).toString(36) + (two >>> 1).toString(36)
}
