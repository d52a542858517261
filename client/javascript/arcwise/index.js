/** A client of arcwise: values are randomised here, and only codes leave. */

export { Client } from "./client.js";
export { LocalStorage, MemoryStorage } from "./storage.js";
export { Task, TaskError } from "./task.js";
