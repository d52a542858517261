"""A ride logger that reports, with its user's consent, where rides go and how long they take."""
