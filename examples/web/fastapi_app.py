"""A FastAPI app that reports on behalf of its users: ``uvicorn --no-access-log fastapi_app:app``.

DATABASE_URL is the app's PostgreSQL database, and REPORTS_URL an arcwise server. With COLLECT=1 the app
itself is that server, at the path /arcwise: then REPORTS_URL is http://127.0.0.1:8000/arcwise.
"""

from __future__ import annotations

import os
from asyncio import to_thread
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import Body, FastAPI, Header, HTTPException

from arcwise.client import Caps, Circle, Outcome, PostgresLedgers, Task
from arcwise.client.asgi import Reporting
from arcwise.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HEADING = Task("heading", Circle(360), epsilon=1.0, caps=Caps(lifetime=3.0))

ledgers = PostgresLedgers(
    os.environ["DATABASE_URL"], schema=os.environ.get("LEDGER_SCHEMA", "arcwise_ledger"), create=True
)
reporting = Reporting(
    os.environ.get("REPORTS_URL", "http://127.0.0.1:8000/arcwise"),
    tasks=[HEADING],
    ledgers=ledgers,
    interval=1.0,
)
collector = None
if os.environ.get("COLLECT"):
    from arcwise.server import create_app

    collector = create_app(tasks=[HEADING], store=os.environ.get("STORE", "sqlite:///arcwise.db"))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Also run the mounted server's lifespan, which Starlette does not do."""
    async with AsyncExitStack() as running:
        if collector is not None:
            await running.enter_async_context(collector.router.lifespan_context(collector))
        await running.enter_async_context(reporting.lifespan(app))
        yield


app = FastAPI(lifespan=lifespan)
if collector is not None:
    app.mount("/arcwise", collector)


@app.put("/consent")
async def consent(x_user: str = Header()) -> dict[str, bool]:
    """Make the account of a user who agrees, or resume reporting for a user who comes back.

    A real app signs its users in; here a header names the user.
    """
    made = await to_thread(ledgers.create_account, x_user)
    await reporting.client(x_user).opt_in()
    return {"made": made}


@app.delete("/consent")
async def withdraw(x_user: str = Header()) -> dict[str, bool]:
    """Stop reporting for a user. The budget stays spent; a new account would have a whole one."""
    try:
        await reporting.client(x_user).opt_out()
    except LedgerError as error:  # there is no account, or the database does not answer
        raise HTTPException(503, "not stopped: try again") from error
    return {"stopped": True}


@app.post("/rides")
async def ride(heading: float = Body(embed=True), x_user: str = Header()) -> dict[str, str]:
    """Report the heading of a ride; the ride itself would be stored here. A query would be in access logs."""
    try:
        outcome = await reporting.client(x_user).report("heading", heading)
    except ValueError as error:
        raise HTTPException(422, "heading must be a number") from error
    return {"outcome": Outcome(outcome).value}
