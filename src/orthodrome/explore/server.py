"""The server: on this machine only, for its own page only. It reads no file but the page's, and
unpickles nothing."""

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from orthodrome.explore.scene import Scene
from orthodrome.explore.session import RequestError, Session

LOOPBACK = "127.0.0.1"
"""The address of this machine that no other can reach."""

NOWHERE = ("0.0.0.0", "::")
"""No addresses: whoever asks by one of them could be anybody."""

PORT = 8765
"""Where the page is, unless it is taken or another is asked for."""

LARGEST_REQUEST = 64 * 1024
"""Bytes: fifty paths need a tenth of it."""

LONGEST_WAIT = 20
"""Seconds until the body of a request should have arrived."""

CLOSE = {"Connection": "close"}
"""Of an answer after which no more is read."""

MOST_WAITING = 16
"""Requests that may wait for the one thread that computes."""

PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
} | {
    f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
    for name in ("page", "state", "asking", "paths", "panel", "drawing")
}
"""What is served as it is, and what it is: nothing else can be asked for."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Of every answer: the page loads nothing from elsewhere, and nobody else loads anything from
here."""


def serve(
    scene: Scene,
    host: str = LOOPBACK,
    port: int | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the page until Ctrl-C; `ready` is called with its address as soon as it can be
    opened."""
    door = _listen(host, port)
    name, number = _as_written(host), door.getsockname()[1]
    names = {name, "localhost", LOOPBACK} if name == LOOPBACK else {name}
    application = app(
        scene, {f"{each}:{number}" for each in names} | (names if number == 80 else set())
    )
    config = uvicorn.Config(
        application, log_level="warning", ws="none", timeout_graceful_shutdown=2
    )
    ready(f"http://{name}:{number}/")
    with door, contextlib.suppress(KeyboardInterrupt):  # that is how one ends it
        uvicorn.Server(config).run(sockets=[door])


def app(scene: Scene, hosts: set[str]) -> ASGIApp:
    """The application for a scene, known under these names (with their ports)."""
    session, worker = Session(scene), _Worker()
    worker.begin(session.warm_up())

    def asking(answer: Callable[[Any], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            answered = await worker.run(answer, await _json(request))
            if isinstance(answered, tuple):
                name, media, content = answered
                return Response(
                    content,
                    headers={
                        "Content-Disposition": f'attachment; filename="{name}"',
                        "Content-Type": media,
                    },
                )
            return JSONResponse(answered)

        return endpoint

    async def describe(request: Request) -> Response:
        return JSONResponse(session.describe())

    routes = [
        *(Route(path, _file(*what), methods=["GET"]) for path, what in PAGE.items()),
        Route("/api/scene", describe, methods=["GET"]),
        Route("/api/map", asking(session.map), methods=["POST"]),
        Route("/api/path", asking(session.path), methods=["POST"]),
        Route("/api/take-away", asking(session.take_away), methods=["POST"]),
    ]
    handlers: dict[Any, Any] = {
        HTTPException: _refused,
        RequestError: _bad_request,
        Exception: _our_mistake,
    }
    return Guard(Starlette(routes=routes, exception_handlers=handlers), hosts)


class Guard:
    """Lets in only who asks for this server by its own name, and only pages of its own.

    Another page in the same browser may send requests here, and may have its own name point to this
    machine: its requests then carry that name as `Host`, or its address as `Origin`.
    """

    def __init__(self, inside: ASGIApp, hosts: set[str]) -> None:
        self.inside, self.hosts = inside, hosts
        self.origins = {f"http://{host}" for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or hand on with the headers that every answer has."""
        if scope["type"] != "http":
            await self.inside(scope, receive, send)
            return
        given = {
            name: [v.decode("latin-1") for k, v in scope["headers"] if k == name]
            for name in (b"host", b"origin")
        }
        if len(given[b"host"]) != 1 or given[b"host"][0].lower() not in self.hosts:
            refusal = JSONResponse({"error": "this server answers only to its own address."}, 421)
        elif any(origin.lower() not in self.origins for origin in given[b"origin"]):
            refusal = JSONResponse({"error": "this server answers only to its own page."}, 403)
        else:
            refusal = None

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [
                    (name.lower().encode(), value.encode()) for name, value in HEADERS.items()
                ]
            await send(message)

        await (refusal or self.inside)(scope, receive, send_with_headers)


class _Worker:
    """The one thread that computes: JAX keeps all cores busy from it, and a session is not for
    two."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1, "orthodrome")
        self.waiting = 0

    def begin(self, steps: Iterator[None]) -> None:
        """Do these steps, and between them whatever else has come; what goes wrong goes wrong again
        for who asks."""

        def step() -> None:
            if next(steps, self) is not self:
                with contextlib.suppress(RuntimeError):  # the server is being stopped
                    self.pool.submit(step)

        self.pool.submit(step)

    async def run(self, work: Callable[[Any], Any], request: object) -> Any:
        if self.waiting >= MOST_WAITING:
            raise HTTPException(
                429, "too many requests are waiting: ask again when they are answered."
            )
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, work, request)
        except asyncio.CancelledError:
            raise HTTPException(503, "the server is being stopped.", CLOSE) from None
        finally:
            self.waiting -= 1


def _file(name: str, media: str) -> Callable[[Request], Awaitable[Response]]:
    content = files("orthodrome.explore").joinpath(name).read_bytes()

    async def endpoint(request: Request) -> Response:
        return Response(content, headers={"Content-Type": media})

    return endpoint


async def _json(request: Request) -> Any:
    """The body, if it is JSON and not too long."""
    if (
        request.headers.get("content-type", "").partition(";")[0].strip().lower()
        != "application/json"
    ):
        raise HTTPException(415, "the request should be application/json.", CLOSE)
    promised, body = request.headers.get("content-length", "0"), bytearray()
    _require_short(
        int(promised) if promised.isdecimal() and len(promised) < 20 else LARGEST_REQUEST + 1
    )
    try:
        async with asyncio.timeout(LONGEST_WAIT):
            async for chunk in request.stream():
                body += chunk
                _require_short(len(body))
    except ClientDisconnect:
        raise HTTPException(400, "the request ended too early.") from None
    except TimeoutError:
        raise HTTPException(
            408, f"the request should arrive within {LONGEST_WAIT} seconds.", CLOSE
        ) from None
    try:
        return json.loads(body.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the request should be JSON; it cannot be read as such.") from None


def _require_short(length: int) -> None:
    if length > LARGEST_REQUEST:
        raise HTTPException(413, f"the request should have at most {LARGEST_REQUEST} bytes.", CLOSE)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON.")


async def _refused(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _bad_request(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 422)


async def _our_mistake(request: Request, error: Exception) -> Response:
    return JSONResponse(
        {"error": f"something went wrong in the server ({type(error).__name__})."}, 500
    )


def _as_written(host: str) -> str:
    """A host as it stands in an address."""
    return f"[{host.lower()}]" if ":" in host else host.lower()


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket at this port; if none was asked for, at the usual one, or any other if that is
    taken."""
    for number in (PORT, 0) if port is None else (port,):
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host or NOWHERE[0], number, type=socket.SOCK_STREAM
            )[0]
            if address[0] in NOWHERE:
                raise ValueError(
                    f"--host should be the one address that people will type; {host!r} stands for "
                    "all of them."
                )
            # with its protocol said: only then asyncio sends small answers at once, and not 40 ms
            # later
            door = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(address)
            door.listen()
            return door
        except OSError as error:
            if number == 0 or port is not None:
                where = f"{host}:{port or PORT}"
                raise OSError(
                    f"the page cannot be served at {where} ({error.strerror}): choose another "
                    "--port or --host."
                ) from None
    raise AssertionError
