/**
 * Kernels: N rows of K integer weights that sum to 2^64, and a sampler that draws from them exactly.
 *
 * @typedef {object} Kernel
 * @property {number} codes K, the number of codes
 * @property {number} nodes N, the number of rows
 * @property {number} window W, the number of codes inside a window; 0 for kernels without one
 * @property {(node: number) => bigint[]} row
 * @property {(node: number, u: bigint) => number} sample the code for u, which is uniform in [0, 2^64)
 * @property {(bound: bigint) => boolean} keeps whether all ratios of two weights of a code are within a bound
 *
 * @typedef {import("./msgpack.js").Packable} Packable
 */

import { isRatioWithin, UNIT } from "./exact.js";
import { modulo } from "./domain.js";
import { array, check, count, real, weight } from "./checks.js";

const MOST_CODES = 2 ** 16;

/** By kind of kernel: the possible placements, and the function that reads the fields. */
export const KERNELS = {
  window: { placements: ["inset", "clamp", "wrap"], read: windowKernel },
  table: { placements: ["inset"], read: tableKernel },
  circulant: { placements: ["wrap"], read: circulantKernel },
};

/**
 * By placement, a function that returns the node with its window centred at a place. Places are in codes, or for
 * "inset" in nodes.
 *
 * @type {Record<string, (kernel: Kernel, place: number, half: number) => number>}
 */
export const PLACEMENTS = {
  inset: (_kernel, place) => place,
  clamp: ({ nodes }, place, half) => Math.min(Math.max(place - half, 0), nodes - 1),
  wrap: ({ codes }, place, half) => {
    const node = modulo(place - half, codes);
    return node < codes ? node : 0;
  },
};

/**
 * K, N, W, b, g: every code has the weight b, W codes from the node on have g more, and the first few have 1 more.
 *
 * @param {Packable[]} fields
 * @param {boolean} circular
 * @returns {Kernel}
 */
function windowKernel(fields, circular) {
  check(fields.length === 5, "a window kernel has 5 fields");
  const codes = count(fields[0], "codes", 2, MOST_CODES);
  const nodes = count(fields[1], "nodes", 2, codes);
  const window = count(fields[2], "window", 1, codes - 1);
  const background = weight(fields[3], "background");
  const extra = weight(fields[4], "extra");
  check(codes === (circular ? nodes : nodes + window - 1), "codes do not agree with nodes and window");
  check(background > 0n && extra > 0n, "background and extra must be at least 1");
  const inside = BigInt(codes) * background;
  const leftover = inside + BigInt(window) * extra;
  check(leftover <= UNIT && UNIT - leftover < BigInt(codes), "the rows do not sum to 2^64");
  return {
    codes,
    nodes,
    window,
    row: (node) =>
      Array.from({ length: codes }, (_, code) => {
        const ahead = circular ? (code - node + codes) % codes : code - node;
        const within = ahead >= 0 && ahead < window;
        return background + (within ? extra : 0n) + (BigInt(code) < UNIT - leftover ? 1n : 0n);
      }),
    sample: (node, u) => {
      if (u < inside) return Number(u / background);
      if (u < leftover) return (node + Number((u - inside) / extra)) % codes;
      return Number(u - leftover);
    },
    // The last code has no unit of the leftover, and lies in the window of one node but not of another.
    keeps: (bound) => isRatioWithin(background + extra, background, bound),
  };
}

/**
 * K, N, N rows of K weights, K output values (which only the server needs).
 *
 * @param {Packable[]} fields
 * @returns {Kernel}
 */
function tableKernel(fields) {
  check(fields.length === 4, "a table has 4 fields");
  const codes = count(fields[0], "codes", 2, MOST_CODES);
  const nodes = count(fields[1], "nodes", 2, MOST_CODES);
  const rows = array(fields[2], "rows", nodes).map((row) => checkedRow(row, codes));
  for (const unit of array(fields[3], "units", codes)) real(unit, "a unit");
  const ends = rows.map(runningSums);
  return {
    codes,
    nodes,
    window: 0,
    row: (node) => [...rows[node]],
    sample: (node, u) => pick(ends[node], u),
    keeps: (bound) =>
      rows[0].every((_, code) => {
        const column = rows.map((row) => row[code]);
        return isRatioWithin(largest(column), least(column), bound);
      }),
  };
}

/**
 * K and the weights of node 0; rotated through all nodes, every code gets every weight.
 *
 * @param {Packable[]} fields
 * @returns {Kernel}
 */
function circulantKernel(fields) {
  check(fields.length === 2, "a circulant has 2 fields");
  const codes = count(fields[0], "codes", 2, MOST_CODES);
  const weights = checkedRow(fields[1], codes);
  check(largest(weights) > least(weights), "the weights are all equal: reports would reveal nothing");
  const ends = runningSums(weights);
  return {
    codes,
    nodes: codes,
    window: 0,
    row: (node) => weights.map((_, code) => weights[(code - node + codes) % codes]),
    sample: (node, u) => (pick(ends, u) + node) % codes,
    keeps: (bound) => isRatioWithin(largest(weights), least(weights), bound),
  };
}

/**
 * @param {Packable} field
 * @param {number} codes
 * @returns {bigint[]}
 */
function checkedRow(field, codes) {
  const row = array(field, "a row", codes).map((item) => weight(item, "a weight"));
  check(row.reduce((sum, item) => sum + item, 0n) === UNIT, "a row does not sum to 2^64");
  return row;
}

/** @param {bigint[]} weights */
function runningSums(weights) {
  let sum = 0n;
  return weights.map((item) => (sum += item));
}

/**
 * The first code whose running sum exceeds u, by bisection.
 *
 * @param {bigint[]} ends
 * @param {bigint} u
 */
function pick(ends, u) {
  let low = 0;
  for (let high = ends.length - 1; low < high; ) {
    const middle = (low + high) >> 1;
    if (ends[middle] > u) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** @param {bigint[]} items */
const largest = (items) => items.reduce((a, b) => (a > b ? a : b));

/** @param {bigint[]} items */
const least = (items) => items.reduce((a, b) => (a < b ? a : b));
