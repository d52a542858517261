"""A relay of Oblivious HTTP (RFC 9458): sees who sends and not what, and hands it on to one gateway.

    pip install fastapi httpx uvicorn
    GATEWAY=https://reports.example/.well-known/ohttp-gateway uvicorn --no-access-log relay:app

Whoever runs the server must not run this too, nor be able to read what it sees: it would hide nothing then.
It keeps no log, and hands on nothing of a request but its body and its type.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI, Request, Response

GATEWAY = os.environ["GATEWAY"]
ORIGINS = os.environ.get("ORIGINS", "").split()  # of pages that report from a browser
MOST_BYTES = (2 << 20) + 64  # a batch of 1 MiB, padded and encrypted
REQUEST, RESPONSE = "message/ohttp-req", "message/ohttp-res"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Keep connections to the gateway open."""
    async with httpx.AsyncClient(timeout=30.0, limits=httpx.Limits(max_connections=100)) as app.state.gateway:
        yield


app = FastAPI(lifespan=lifespan, openapi_url=None)
if ORIGINS:
    from fastapi.middleware.cors import CORSMiddleware

    app.add_middleware(
        CORSMiddleware, allow_origins=ORIGINS, allow_methods=["POST"], allow_headers=["Content-Type"]
    )


@app.post("/")
async def relay(request: Request) -> Response:
    """Hand one request on, and its answer back."""
    if request.headers.get("content-type") != REQUEST:
        return Response(status_code=415)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            return Response(status_code=413)
    try:
        answer = await request.app.state.gateway.post(
            GATEWAY, content=bytes(body), headers={"Content-Type": REQUEST, "User-Agent": "relay"}
        )
    except Exception:  # not httpx's alone: where a gateway dies as it is connected to, anyio's AttributeError
        return Response(status_code=502)
    if answer.status_code != 200 or answer.headers.get("content-type") != RESPONSE:
        # A key that the gateway does not know, or a server in trouble; its words are not for devices.
        return Response(status_code=answer.status_code if answer.status_code >= 400 else 502)
    return Response(answer.content, media_type=RESPONSE)
