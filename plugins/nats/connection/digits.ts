/** The number whose decimal digits begin at this place of a text; 0 where there are none. No part of the text is cut out. */
export const numberFrom = (text: string, from: number): number => {
  let number = 0
  for (let at = from; ; at++) {
    const digit = text.charCodeAt(at) - ZERO
    if (!(digit >= 0 && digit <= 9)) return number
    number = number * 10 + digit
  }
}

const ZERO = 48
