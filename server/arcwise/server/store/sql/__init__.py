"""What SQLite and PostgreSQL share: a statement that both understand is written here, once."""

__all__: list[str] = []
