"""A ride logger that reports, if its user agrees, where rides go and how long they take."""
