"""An Oblivious HTTP relay (RFC 9458): it sees who sends, but not what, and forwards requests to one gateway.

    pip install aiohttp
    GATEWAY=https://reports.example/.well-known/ohttp-gateway python relay.py --port 8080

The operator of the server must not run this relay or be able to read its data: then it would hide nothing.
The relay keeps no log, and forwards only the body and the media type of a request.
"""

import argparse
import logging
import os
from collections.abc import AsyncIterator

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, web

GATEWAY = os.environ["GATEWAY"]
ORIGINS = os.environ.get("ORIGINS", "").split()  # origins of pages that report from a browser
MOST_BYTES = (2 << 20) + 64  # a batch of 1 MiB, padded and encrypted
REQUEST, RESPONSE = "message/ohttp-req", "message/ohttp-res"
SESSION = web.AppKey("session", ClientSession)


async def relay(request: web.Request) -> web.Response:
    """Forward one request to the gateway, and its answer to the device."""
    if request.content_type != REQUEST:
        return web.Response(status=415)
    body = await request.read()
    try:
        async with request.app[SESSION].post(GATEWAY, data=body, allow_redirects=False) as answer:
            content = await answer.read()
    except Exception:  # on any error, a 502 makes the device try again
        return web.Response(status=502)
    if answer.status != 200 or answer.content_type != RESPONSE:
        # The gateway does not know the key, or the server is in trouble; devices do not need its message.
        return web.Response(status=answer.status if answer.status >= 400 else 502)
    return web.Response(body=content, content_type=RESPONSE)


async def allow(_request: web.Request) -> web.Response:
    """Answer the preflight request (CORS) of a page in `ORIGINS`."""
    return web.Response(
        status=204,
        headers={"Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": "Content-Type"},
    )


async def add_origin(request: web.Request, response: web.StreamResponse) -> None:
    """Let a page in `ORIGINS` read the answer."""
    response.headers["Vary"] = "Origin"
    if (origin := request.headers.get("Origin")) in ORIGINS:
        response.headers["Access-Control-Allow-Origin"] = origin


async def keep_session(app: web.Application) -> AsyncIterator[None]:
    """Keep connections to the gateway open; they send no cookie and nothing about the device."""
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
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL + 1)  # its errors name the sender's address
    web.run_app(create_app(), host=given.host, port=given.port, access_log=None, print=None)
