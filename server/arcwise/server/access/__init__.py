"""Who may do what: keys, sessions, the gate before each request, and changes that are in the audit log."""

__all__: list[str] = []
