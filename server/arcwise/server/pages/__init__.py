"""The dashboard: HTML pages of tasks, estimates and the server's state, made on the server from templates."""

__all__: list[str] = []
