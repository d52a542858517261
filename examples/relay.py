"""A relay of Oblivious HTTP (RFC 9458): sees who sends and not what, and hands it on to one gateway.

    pip install aiohttp
    GATEWAY=https://reports.example/.well-known/ohttp-gateway python relay.py --port 8080

Whoever runs the server must not run this too, nor be able to read what it sees: it would hide nothing then.
It keeps no log, and hands on nothing of a request but its body and its type.
"""

import argparse
import os
from collections.abc import AsyncIterator

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, web

GATEWAY = os.environ["GATEWAY"]
ORIGINS = os.environ.get("ORIGINS", "").split()  # of pages that report from a browser
MOST_BYTES = (2 << 20) + 64  # a batch of 1 MiB, padded and encrypted
REQUEST, RESPONSE = "message/ohttp-req", "message/ohttp-res"
SESSION = web.AppKey("session", ClientSession)


async def relay(request: web.Request) -> web.Response:
    """Hand one request on, and its answer back."""
    if request.content_type != REQUEST:
        return web.Response(status=415)
    body = await request.read()
    try:
        async with request.app[SESSION].post(GATEWAY, data=body, allow_redirects=False) as answer:
            content = await answer.read()
    except Exception:  # whatever it is, the device is to try again
        return web.Response(status=502)
    if answer.status != 200 or answer.content_type != RESPONSE:
        # A key that the gateway does not know, or a server in trouble; its words are not for devices.
        return web.Response(status=answer.status if answer.status >= 400 else 502)
    return web.Response(body=content, content_type=RESPONSE)


async def allow(_request: web.Request) -> web.Response:
    """Let pages of `ORIGINS` send, when their browser asks (CORS)."""
    return web.Response(
        status=204,
        headers={"Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": "Content-Type"},
    )


async def add_origin(request: web.Request, response: web.StreamResponse) -> None:
    """Let a page of `ORIGINS` read the answer."""
    response.headers["Vary"] = "Origin"
    if (origin := request.headers.get("Origin")) in ORIGINS:
        response.headers["Access-Control-Allow-Origin"] = origin


async def keep_session(app: web.Application) -> AsyncIterator[None]:
    """Keep connections to the gateway open; they carry no cookie and no word of whoever asks."""
    async with ClientSession(
        headers={"Content-Type": REQUEST, "User-Agent": "relay"},
        skip_auto_headers=["Accept", "Accept-Encoding"],
        cookie_jar=DummyCookieJar(),
        timeout=ClientTimeout(30),
    ) as app[SESSION]:
        yield


def create_app() -> web.Application:
    """Return the relay."""
    app = web.Application(client_max_size=MOST_BYTES)
    app.cleanup_ctx.append(keep_session)
    app.router.add_post("/", relay)
    if ORIGINS:
        app.router.add_options("/", allow)
        app.on_response_prepare.append(add_origin)
    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    given = parser.parse_args()
    web.run_app(create_app(), host=given.host, port=given.port, access_log=None, print=None)
