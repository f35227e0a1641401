/** A span of time: seconds as a number (fractions are kept), or text such as `"10s"` or `"5 minutes"`. */
export type DurationInput = number | string
