/** What the client throws, under the names that the client in Python has. */

/** Not a task. */
export class TaskError extends Error {
  name = "TaskError";
}

/** A task whose certificate does not hold, or that spends more than an app allows. */
export class CertificateError extends Error {
  name = "CertificateError";
}

/** A value that is outside its task's domain, or not a finite number. */
export class DomainError extends RangeError {
  name = "DomainError";
}

/** A name that no task of the client has. */
export class UnknownTaskError extends RangeError {
  name = "UnknownTaskError";
}

/** An argument that is out of its bounds. */
export class ParameterError extends RangeError {
  name = "ParameterError";
}

/** Spending that cannot be read or written. */
export class LedgerError extends Error {
  name = "LedgerError";
}
