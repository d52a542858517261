"""The ledgers of many accounts and their queue in one PostgreSQL database."""

__all__: list[str] = []
