/** The computations that decide about privacy, in integers: no float takes part. */

/** The sum of every row: a weight w stands for the probability w / 2^64. */
export const UNIT = 1n << 64n;

const SCALE_BITS = 192n;
const MILLION = 1_000_000n;

/**
 * The exact fraction of an epsilon: the smaller of the float and of the decimal that it prints as.
 *
 * @param {number} epsilon above 0
 * @returns {[bigint, bigint]} numerator and denominator
 */
export function exactEpsilon(epsilon) {
  const float = fractionOfFloat(epsilon);
  const decimal = fractionOfDecimal(String(epsilon));
  return float[0] * decimal[1] < decimal[0] * float[1] ? float : decimal;
}

/**
 * @param {number} x
 * @returns {[bigint, bigint]}
 */
function fractionOfFloat(x) {
  let exponent = 0n;
  for (; !Number.isInteger(x); x *= 2) exponent++; // doubling a float is exact
  return [BigInt(x), 1n << exponent];
}

/**
 * @param {string} text as `String` writes a number
 * @returns {[bigint, bigint]}
 */
function fractionOfDecimal(text) {
  const [digits, exponent = "0"] = text.split("e");
  const [whole, decimals = ""] = digits.split(".");
  const power = BigInt(exponent) - BigInt(decimals.length);
  const number = BigInt(whole + decimals);
  return power < 0n ? [number, 10n ** -power] : [number * 10n ** power, 1n];
}

/**
 * An integer that is at most 2^192 e^epsilon and differs from it by less than 2^-50 of it. It is the sum of a Taylor
 * series of positive terms, each rounded down.
 *
 * @param {number} epsilon
 * @returns {bigint}
 */
export function expLowerBound(epsilon) {
  const [numerator, denominator] = exactEpsilon(epsilon);
  let total = 0n;
  let term = 1n << SCALE_BITS;
  for (let k = 1n; term > 0n; k++) {
    total += term;
    term = (term * numerator) / (denominator * k);
  }
  return total;
}

/**
 * Whether high / low is at most e^epsilon, using the lower bound of e^epsilon.
 *
 * @param {bigint} high
 * @param {bigint} low
 * @param {bigint} bound from `expLowerBound`
 */
export function isRatioWithin(high, low, bound) {
  return low > 0n && high << SCALE_BITS <= low * bound;
}

/**
 * The charge of a report: epsilon in millionths, rounded up.
 *
 * @param {number} epsilon
 * @returns {number}
 */
export function microEpsilon(epsilon) {
  const [numerator, denominator] = exactEpsilon(epsilon);
  return Number((numerator * MILLION + denominator - 1n) / denominator);
}
