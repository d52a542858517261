/** What some tasks say and others do not: the map behind the eighth item. */

import { check, text } from "./checks.js";

/** @typedef {import("./msgpack.js").Packable} Packable */

/**
 * For each key, in ascending order, what checks its value. A new key is a line here.
 *
 * @type {Record<string, (value: Packable) => Packable>}
 */
const OPTIONAL = {
  description: (value) => text(value, "the description", 200),
  unit: (value) => text(value, "the unit", 20),
};

/**
 * The value of each key, null where it is not there. A key that is not known may mean anything: it is refused.
 *
 * @param {Packable[]} items what stands behind the eighth
 * @returns {any}
 */
export function checkedOptional(items) {
  const [said = new Map()] = items;
  check(said instanceof Map && items.length <= 1, "behind its eighth item a task may have one map and nothing else");
  check(said.size >= items.length, "a map without keys must not be there");
  for (const key of said.keys()) check(Object.hasOwn(OPTIONAL, key), `the key ${key} is not known to this client`);
  return Object.fromEntries(
    Object.entries(OPTIONAL).map(([key, checked]) => [key, said.has(key) ? checked(said.get(key)) : null]),
  );
}

/**
 * What stands behind the eighth item of a task whose file is this.
 *
 * @param {any} json
 * @returns {Packable[]}
 */
export function optionalFromJson(json) {
  const said = Object.keys(OPTIONAL).filter((key) => Object.hasOwn(json, key));
  return said.length ? [new Map(said.map((key) => [key, json[key]]))] : [];
}
