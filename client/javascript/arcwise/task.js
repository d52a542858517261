/** A task: the question, its epsilon and its integers. A `Task` cannot exist unless its certificate holds. */

import { MOST_SECONDS, array, check, count, real, text } from "./checks.js";
import { MOST_LATTICE_VALUES, toLattice, toPlace, toUnit } from "./domain.js";
import { CertificateError, TaskError } from "./errors.js";
import { expLowerBound, microEpsilon } from "./exact.js";
import { toHex } from "./hex.js";
import { KERNELS, PLACEMENTS } from "./kernel.js";
import { decode, encode } from "./msgpack.js";
import { checkedOptional } from "./optional.js";
import { drawn } from "./randomness.js";
import { fieldsFromJson } from "./task-json.js";

/**
 * @typedef {import("./msgpack.js").Packable} Packable
 * @typedef {import("./domain.js").Domain} Domain
 * @typedef {{ lifetimeMicro: number | null, rollingMicro: number | null, window: number }} Caps in micro-epsilon and
 *     seconds
 * @typedef {{ r: bigint, u: bigint }} Draw two independent uniform integers in [0, 2^64)
 */

const MOST_BYTES = 1 << 20;
const MOST_MICRO_EPSILON = 1e15;
const GOALS = { interval: ["distribution", "mean", "value"], circle: ["direction", "distribution"] };

export class Task {
  /**
   * Use `fromBytes` or `fromJson` instead, which compute the id.
   *
   * @param {Packable} whole the fields
   * @param {Uint8Array} bytes their canonical bytes
   * @param {string} id the SHA-256 of the bytes
   */
  constructor(whole, bytes, id) {
    const fields = array(whole, "a task");
    check(fields[0] === 1n, "the schema version is not known; this client knows 1");
    check(fields.length >= 8, "a task has 8 fields, or 9 with optional ones");
    const [, name, domain, epsilon, goal, epochSeconds, caps, mechanism, ...more] = fields;
    const { central, description, lateness_seconds: lateness, release, unit } = checkedOptional(more);
    /** The name for apps and people. */
    this.name = text(name, "the name", 64);
    /** The question, for people, or null. */
    this.description = description;
    /** The unit of the values, for people, or null. */
    this.unit = unit;
    /** The guarantee for recipients who see only released counts, or null. */
    this.central = central;
    /** How the server releases counts: "closed-epochs", or null for the server's setting. */
    this.release = release;
    /** Seconds after an epoch for which the server still accepts its batches, or null for the server's setting. */
    this.latenessSeconds = lateness;
    this.domain = checkedDomain(domain);
    /** The privacy loss of one report. */
    this.epsilon = real(epsilon, "epsilon");
    check(this.epsilon >= 0.01 && this.epsilon <= 20, "epsilon must be from 0.01 to 20");
    check(typeof goal === "string" && GOALS[this.domain.kind].includes(goal), "the goal does not fit the domain");
    /** The quantity that the server estimates. */
    this.goal = goal;
    /** Seconds in an epoch. */
    this.epochSeconds = count(epochSeconds, "period_seconds", 1, MOST_SECONDS);
    /** The charge of a report. */
    this.microEpsilon = microEpsilon(this.epsilon);
    this.caps = checkedCaps(caps, this.microEpsilon);
    if (central) checkPromise(central, this.caps, this.microEpsilon, this.epochSeconds);
    const [kernel, placement] = checkedKernel(mechanism, this.domain, this.epsilon);
    this.kernel = kernel;
    this.placement = placement;
    this.bytes = bytes;
    this.id = id;
    Object.freeze(this);
  }

  /**
   * Read canonical bytes.
   *
   * @param {Uint8Array} bytes
   * @returns {Promise<Task>}
   * @throws {TaskError} when they are not the canonical bytes of a task
   * @throws {CertificateError} when its certificate does not hold
   */
  static async fromBytes(bytes) {
    check(bytes.length <= MOST_BYTES, `a task takes at most ${MOST_BYTES} bytes`);
    const fields = converted("bytes", decode, bytes);
    const again = encode(fields);
    check(
      again.length === bytes.length && again.every((byte, at) => byte === bytes[at]),
      "not the canonical bytes of a task: a head is longer than it needs to be",
    );
    return new Task(fields, bytes.slice(), await sha256(bytes));
  }

  /**
   * Read the file of a task. The id in the file must match its content.
   *
   * @param {any} json the parsed file
   * @returns {Promise<Task>}
   * @throws {TaskError} when it is not a task, or the id does not match
   * @throws {CertificateError} when its certificate does not hold
   */
  static async fromJson(json) {
    const bytes = converted("file", encode, fieldsFromJson(json));
    const task = await Task.fromBytes(bytes);
    check(task.id === json.id, "the id is not that of the task: the file was edited or damaged");
    return task;
  }

  /**
   * The number of the epoch that contains a Unix time, counted from 1970-01-01 UTC.
   *
   * @param {number} seconds
   */
  epoch(seconds) {
    return Math.floor(seconds / this.epochSeconds);
  }

  /**
   * The real-valued node of a value; on a lattice with a node for each value, a whole number.
   *
   * @param {number} value
   */
  #position(value) {
    const { domain, kernel, placement } = this;
    const { codes, nodes, window } = kernel;
    /** @type {(place: number, half: number) => number} */
    const nodeAt = (place, half) => PLACEMENTS[placement](kernel, place, half);
    if (isNumbered(domain.lattice)) return nodeAt(toPlace(domain, domain.lattice, value), window >> 1);
    return nodeAt((placement === "inset" ? nodes - 1 : codes) * toUnit(domain, value), window / 2);
  }

  /**
   * The node that a value is rounded to; it rounds up with a probability equal to the fraction.
   *
   * @param {number} value
   * @param {bigint} r
   */
  node(value, r) {
    const position = this.#position(value);
    const below = Math.floor(position);
    const up = Number(r >> 11n) * 2 ** -53 < position - below;
    return (below + (up ? 1 : 0)) % this.kernel.nodes;
  }

  /**
   * One report: a code from 0 to K - 1. Epsilon-LDP when the draw is uniform and used once.
   *
   * @param {number} value
   * @param {Draw} draw
   * @returns {number}
   */
  randomize(value, { r, u } = draw()) {
    return this.kernel.sample(this.node(value, r), u);
  }
}

/**
 * Draw 128 bits from the platform's CSPRNG.
 *
 * @returns {Draw}
 */
export function draw() {
  const [r, u] = drawn(new BigUint64Array(2));
  return { r, u };
}

/**
 * @template From, To
 * @param {string} kind the expected kind of `from`
 * @param {(from: From) => To} convert
 * @param {From} from
 * @returns {To}
 */
function converted(kind, convert, from) {
  try {
    return convert(from);
  } catch (error) {
    throw new TaskError(`not the ${kind} of a task: ${/** @type {Error} */ (error).message}`);
  }
}

/** @param {Uint8Array} bytes */
async function sha256(bytes) {
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", /** @type {BufferSource} */ (bytes))));
}

/**
 * @param {Packable} field
 * @returns {Domain}
 */
function checkedDomain(field) {
  const [kind, ...bounds] = array(field, "the domain");
  const numbers = bounds.filter((bound) => typeof bound === "number");
  check(numbers.every((x) => Number.isFinite(x) && !Object.is(x, -0)), "bounds must be finite, and 0 without a sign");
  if (kind === "circle") {
    const [period, ...more] = bounds;
    check(typeof period === "number" && period > 0, "the period must be a number above 0");
    return { kind, period, lattice: checkedLattice(more, { length: period, farthest: period, circular: true }) };
  }
  const [low, high, clip, ...more] = bounds;
  check(kind === "interval" && bounds.length >= 3, "the domain is neither interval nor circle");
  check(typeof low === "number" && typeof high === "number" && low < high, "low must be below high");
  check(Number.isFinite(high - low) && typeof clip === "boolean", "high - low must be finite, clip true or false");
  const farthest = Math.max(-low, high);
  return { kind, low, high, clip, lattice: checkedLattice(more, { length: high - low, farthest, circular: false }) };
}

/**
 * @param {Packable[]} fields empty, or step and rounding
 * @param {{ length: number, farthest: number, circular: boolean }} domain
 */
function checkedLattice(fields, domain) {
  if (fields.length === 0) return null;
  const lattice = fields.length === 2 ? toLattice(fields[0], fields[1], domain) : null;
  check(lattice, "step and rounding must be those of a lattice: a step that divides the domain into whole steps");
  return lattice;
}

/**
 * Whether each value of a lattice has a node, which holds unless there are too many values.
 *
 * @param {import("./domain.js").Lattice | null} lattice
 * @returns {lattice is import("./domain.js").Lattice}
 */
function isNumbered(lattice) {
  return lattice !== null && lattice.size <= MOST_LATTICE_VALUES;
}

/**
 * @param {Packable} field
 * @param {number} charge
 * @returns {Caps}
 */
function checkedCaps(field, charge) {
  const caps = array(field, "caps");
  check(caps.length === 3, "caps has three fields; this client does not support caps on delta");
  const name = `a cap in micro-epsilon, of which a report costs ${charge},`;
  const [lifetimeMicro, rollingMicro] = caps
    .slice(0, 2)
    .map((cap) => (cap === null ? null : count(cap, name, charge, MOST_MICRO_EPSILON)));
  return { lifetimeMicro, rollingMicro, window: count(caps[2], "the rolling window in seconds", 1, MOST_SECONDS) };
}

/**
 * Refuse caps that allow more reports than the central statement assumes.
 *
 * @param {import("./optional.js").CentralStatement} central
 * @param {Caps} caps
 * @param {number} charge
 * @param {number} epochSeconds
 */
function checkPromise({ releases, reportsEach }, { lifetimeMicro, rollingMicro, window }, charge, epochSeconds) {
  check(
    lifetimeMicro !== null && lifetimeMicro <= releases * charge,
    `with a central statement the lifetime cap must allow at most its releases, ${releases} reports`,
  );
  check(
    rollingMicro !== null && rollingMicro <= reportsEach * charge && window >= epochSeconds,
    `with a central statement the rolling cap must allow at most ${reportsEach} reports, for a whole epoch`,
  );
}

/**
 * Read the kernel and check its certificate. Only the server uses the name of the mechanism.
 *
 * @param {Packable} field
 * @param {Domain} domain
 * @param {number} epsilon
 * @returns {[import("./kernel.js").Kernel, string]} the kernel and its placement
 */
function checkedKernel(field, domain, epsilon) {
  const [name, version, whole, ...more] = array(field, "the mechanism");
  check(typeof name === "string" && version === 1n && !more.length, "the mechanism is not known to this client");
  const [kind, placement, ...rest] = array(whole, "the kernel");
  const known = Object.entries(KERNELS).find(([key]) => key === kind)?.[1];
  const circular = domain.kind === "circle";
  check(known && typeof placement === "string", "the kind of the kernel is not known");
  check(
    known.placements.includes(placement) && (placement === "wrap") === circular,
    "the kernel does not have this placement, or the domain does not",
  );
  const kernel = known.read(rest, circular);
  const { lattice } = domain;
  check(
    !isNumbered(lattice) || lattice.size === (placement === "clamp" ? kernel.codes : kernel.nodes),
    "the kernel does not have a node for each value of the domain",
  );
  if (!kernel.keeps(expLowerBound(epsilon))) {
    throw new CertificateError(`some ratio of weights is above e^epsilon at epsilon = ${epsilon}`);
  }
  return [kernel, placement];
}
