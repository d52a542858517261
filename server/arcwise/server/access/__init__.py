"""Access control: keys, sessions, the gate before each request, and changes, which the audit log records."""

__all__: list[str] = []
