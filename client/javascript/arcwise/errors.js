/** The client's errors, with the same names as in the Python client. */

/** The data does not describe a valid task. */
export class TaskError extends Error {
  name = "TaskError";
}

/** The certificate of a task does not hold, or the task spends more than the app allows. */
export class CertificateError extends Error {
  name = "CertificateError";
}

/** The value is outside its task's domain, or not a finite number. */
export class DomainError extends RangeError {
  name = "DomainError";
}

/** The client has no task of this name. */
export class UnknownTaskError extends RangeError {
  name = "UnknownTaskError";
}

/** An argument is out of its bounds. */
export class ParameterError extends RangeError {
  name = "ParameterError";
}

/** The ledger cannot be read or written. */
export class LedgerError extends Error {
  name = "LedgerError";
}
