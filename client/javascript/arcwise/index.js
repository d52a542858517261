/** The arcwise client: it randomises values here and sends only codes. */

export { Client } from "./client.js";
export {
  CertificateError,
  DomainError,
  LedgerError,
  ParameterError,
  TaskError,
  UnknownTaskError,
} from "./errors.js";
export { IndexedDBLedger, MemoryLedger } from "./ledger.js";
export { readState, writeState } from "./state.js";
export { Task } from "./task.js";

/**
 * @typedef {import("./client.js").Options} Options
 * @typedef {import("./client.js").Budget} Budget
 * @typedef {import("./client.js").Counters} Counters
 * @typedef {import("./client.js").Event} Event
 * @typedef {import("./ledger.js").Ledger} Ledger
 * @typedef {import("./state.js").State} State
 * @typedef {import("./task.js").Caps} Caps
 * @typedef {import("./optional.js").CentralStatement} CentralStatement
 */
