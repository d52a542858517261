"""A ride logger that tells, with its user's consent, where rides go and how long they take."""
