/** Converts a task's file into the fields of its canonical bytes. `Task` checks their values. */

import { check, integer } from "./checks.js";
import { optionalFromJson } from "./optional.js";

/** @typedef {import("./msgpack.js").Packable} Packable */

/**
 * @param {any} json
 * @returns {Packable[]}
 */
export function fieldsFromJson(json) {
  const { domain, caps, mechanism } = object(json, ["domain", "caps", "mechanism"]);
  const { kind, placement, ...kernel } = object(object(mechanism, ["kernel"]).kernel, ["kind", "placement"]);
  object(domain, ["kind"]);
  object(caps, []);
  const bounds = { interval: ["low", "high", "clip"], circle: ["period"] };
  const lattice = ["step", "rounding"].some((key) => Object.hasOwn(domain, key)) ? ["step", "rounding"] : [];
  check(Object.hasOwn(bounds, domain.kind), "the kind of a domain must be interval or circle");
  check(Object.hasOwn(KERNELS, kind), "the kind of a kernel must be window, table or circulant");
  const known = ["lifetime_micro_epsilon", "rolling_micro_epsilon", "rolling_window_seconds"];
  check(Object.keys(caps).every((key) => known.includes(key)), "caps has a key unknown to this client");
  return [
    integer(json.arcwise_task),
    json.name ?? null,
    [domain.kind, ...values(domain, [...bounds[/** @type {"interval" | "circle"} */ (domain.kind)], ...lattice])],
    json.epsilon ?? null,
    json.goal ?? null,
    integer(json.period_seconds),
    values(caps, known).map((cap) => (cap === null ? null : integer(cap))),
    [mechanism.name ?? null, integer(mechanism.version), [kind, placement, ...KERNELS[kind](kernel)]],
    ...optionalFromJson(json),
  ];
}

/** @type {Record<string, (kernel: any) => Packable[]>} */
const KERNELS = {
  window: (kernel) => [
    ...values(kernel, ["codes", "nodes", "window"]).map(integer),
    ...values(kernel, ["background", "extra"]).map(decimal),
  ],
  table: (kernel) => [
    ...values(kernel, ["codes", "nodes"]).map(integer),
    list(kernel.rows).map(decimals),
    list(kernel.units),
  ],
  circulant: (kernel) => [integer(kernel.codes), decimals(kernel.weights)],
};

/**
 * @param {any} value
 * @param {string[]} keys
 */
function object(value, keys) {
  check(value !== null && typeof value === "object", "a task file holds one JSON object with objects inside");
  for (const key of keys) check(Object.hasOwn(value, key), `a task file needs the key ${key}`);
  return value;
}

/**
 * @param {any} source
 * @param {string[]} keys
 * @returns {any[]}
 */
function values(source, keys) {
  object(source, keys);
  return keys.map((key) => source[key]);
}

/** @param {unknown} value */
function list(value) {
  check(Array.isArray(value), "rows and units must be lists");
  return value;
}

/** @param {unknown} text */
function decimal(text) {
  check(typeof text === "string" && /^[0-9]{1,20}$/.test(text), "a weight must be a decimal string");
  const value = BigInt(text);
  check(value >> 64n === 0n, "a weight must be below 2^64");
  return value;
}

/** @param {unknown} text */
function decimals(text) {
  check(typeof text === "string", "a row must be a string of decimals");
  return text.split(" ").map(decimal);
}
