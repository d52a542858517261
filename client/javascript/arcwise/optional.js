/** The optional fields of a task, in the map after its eighth item. */

import { MOST_SECONDS, check, count, integer, real, text } from "./checks.js";

/**
 * @typedef {import("./msgpack.js").Packable} Packable
 * @typedef {{ epsilon: number, delta: number, reports: number, honest: number, reportsEach: number, releases: number }}
 *     CentralStatement the guarantee for recipients who see only released counts, with its assumptions
 */

/**
 * For each key, in ascending order, the function that checks its value. A new key needs only a line here.
 *
 * @type {Record<string, (value: Packable) => string | number | CentralStatement>}
 */
const OPTIONAL = {
  central: checkedCentral,
  description: (value) => text(value, "the description", 200),
  lateness_seconds: (value) => count(value, "lateness_seconds", 0, MOST_SECONDS),
  release: checkedRelease,
  unit: (value) => text(value, "the unit", 20),
};

/** The keys of a central statement, in ascending order, and whether each is an integer. */
const CENTRAL = { delta: false, epsilon: false, honest: false, releases: true, reports: true, reports_each: true };
const MOST_REPORTS = 1e12;
const MOST_RELEASES = 1e6;
const LEAST_DELTA = 1e-200;

/**
 * The value of each key, or null if the key is missing. An unknown key may mean anything, so it is refused.
 *
 * @param {Packable[]} items the items after the eighth
 * @returns {any}
 */
export function checkedOptional(items) {
  const [said = new Map()] = items;
  check(said instanceof Map && items.length <= 1, "after its eighth item a task may have one map and nothing else");
  check(said.size >= items.length, "a map without keys must be left out");
  for (const key of said.keys()) check(Object.hasOwn(OPTIONAL, key), `the key ${key} is not known to this client`);
  return Object.fromEntries(
    Object.entries(OPTIONAL).map(([key, checked]) => [key, said.has(key) ? checked(said.get(key)) : null]),
  );
}

/**
 * The items after the eighth for the task with this file.
 *
 * @param {any} json
 * @returns {Packable[]}
 */
export function optionalFromJson(json) {
  const said = Object.keys(OPTIONAL).filter((key) => Object.hasOwn(json, key));
  return said.length ? [new Map(said.map((key) => [key, packable(key, json[key])]))] : [];
}

/**
 * @param {string} key
 * @param {any} value
 * @returns {Packable}
 */
function packable(key, value) {
  if (key === "lateness_seconds") return integer(value);
  if (key !== "central") return value;
  check(value !== null && typeof value === "object", "the central statement must be an object");
  checkCentralKeys(Object.keys(value));
  return new Map(Object.entries(CENTRAL).map(([name, whole]) => [name, whole ? integer(value[name]) : value[name]]));
}

/** @param {string[]} found in any order */
function checkCentralKeys(found) {
  const keys = Object.keys(CENTRAL);
  check(
    found.length === keys.length && keys.every((key) => found.includes(key)),
    `the central statement must hold ${keys.join(", ")} and nothing else`,
  );
}

/**
 * @param {Packable} value
 * @returns {CentralStatement}
 */
function checkedCentral(value) {
  check(value instanceof Map, "the central statement must be a map");
  checkCentralKeys([...value.keys()]);
  const [delta, epsilon, honest] = ["delta", "epsilon", "honest"].map((key) => real(value.get(key), `central ${key}`));
  check(epsilon > 0, "central epsilon must be above 0");
  check(delta >= LEAST_DELTA && delta < 1, "central delta must be from 1e-200 to below 1");
  check(honest > 0 && honest <= 1, "the honest share must be above 0 and at most 1");
  const reports = count(value.get("reports"), "central reports", 1, MOST_REPORTS);
  const reportsEach = count(value.get("reports_each"), "central reports_each", 1, reports);
  const releases = count(value.get("releases"), "central releases", 1, MOST_RELEASES);
  return Object.freeze({ epsilon, delta, reports, honest, reportsEach, releases });
}

/** @param {Packable} value */
function checkedRelease(value) {
  check(value === "closed-epochs", "the release must be closed-epochs");
  return value;
}
