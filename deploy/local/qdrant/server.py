"""The HTTP server: routes, faults, start and end. Bodies are parsed and answers written on the shards' threads."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import unquote

import orjson
from aiohttp import web
from pydantic import ValidationError

from eunoe.deploy.local.qdrant.calls import CALLS, Call
from eunoe.deploy.local.qdrant.collection import Collections, LocalCollection
from eunoe.deploy.local.qdrant.errors import RequestError, unsupported
from eunoe.deploy.local.qdrant.key import key_check
from eunoe.streams.cancelling import cancelled

logger = logging.getLogger(__name__)

API_VERSION = "1.20.0"
MAX_BODY_BYTES = 32 * 1024 * 1024
FLUSH_SECONDS = 30.0
_PARAMETERS = frozenset({"wait", "ordering", "consistency", "timeout"})

COLLECTIONS: web.AppKey[Collections] = web.AppKey("collections", Collections)
ANSWERED: web.AppKey[Counter[tuple[str, str, int]]] = web.AppKey("answered", Counter)
"""(method, route, status) → number of requests."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_app(data: Path, api_key: str | None = None, *, replaceable: bool = False) -> web.Application:
    """The application for the collections in ``data``, which it opens at its start and closes at its end.

    With ``api_key`` requests must have it. ``replaceable``: see `Collections`.
    """
    checks = [] if api_key is None else [key_check(api_key)]
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[*checks, _faults])
    app[COLLECTIONS] = Collections(data / "collections", replaceable=replaceable)
    app[ANSWERED] = Counter()
    app.on_response_prepare.append(_count)
    app.cleanup_ctx.append(_serving)
    app.add_routes([web.get("/", _version), *(web.get(path, _ready) for path in ("/readyz", "/healthz", "/livez"))])
    app.add_routes([web.get("/metrics", _metrics)])
    app.add_routes([web.get("/collections", _list), web.get("/collections/{name}/exists", _exists)])
    app.add_routes([web.put("/collections/{name}", _create), web.delete("/collections/{name}", _drop)])
    app.add_routes([web.post("/collections/{name}/rewrite", _rewrite)])
    app.add_routes(
        [web.route(method, f"/collections/{{name}}{path}", _handler(call)) for (method, path), call in CALLS.items()]
    )
    return app


async def _serving(app: web.Application) -> AsyncIterator[None]:
    collections = app[COLLECTIONS]
    await asyncio.to_thread(collections.load)
    flushing = asyncio.create_task(_flush_periodically(collections))
    yield
    await cancelled(flushing)
    await asyncio.to_thread(collections.close)


async def _flush_periodically(collections: Collections) -> None:
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        await collections.flush()


def _handler(call: Call) -> Handler:
    def work(collection: LocalCollection, body: bytes) -> bytes:
        started = time.perf_counter()
        return _answer(call(collection, body), started)

    async def handle(request: web.Request) -> web.Response:
        body = await request.read()
        collection = request.app[COLLECTIONS].get(request.match_info["name"])
        return _json(200, await collection.run(work, body))

    return handle


async def _version(_: web.Request) -> web.Response:
    return web.json_response({"title": "eunoe's embedded Qdrant", "version": API_VERSION, "commit": None})


async def _ready(_: web.Request) -> web.Response:
    return web.Response(text="all shards are ready")


async def _count(request: web.Request, response: web.StreamResponse) -> None:
    resource = request.match_info.route.resource
    route = "" if resource is None else resource.canonical
    request.app[ANSWERED][request.method, route, response.status] += 1


async def _metrics(request: web.Request) -> web.Response:
    """Numbers of answered requests, in the text format of Prometheus and under Qdrant's own name."""
    lines = (
        f'rest_responses_total{{method="{method}",endpoint="{route}",status="{status}"}} {count}'
        for (method, route, status), count in sorted(request.app[ANSWERED].items())
    )
    return web.Response(text="\n".join(("# TYPE rest_responses_total counter", *lines, "")))


async def _list(request: web.Request) -> web.Response:
    names = request.app[COLLECTIONS].names()
    return _json(200, _answer({"collections": [{"name": name} for name in names]}))


async def _exists(request: web.Request) -> web.Response:
    return _json(200, _answer({"exists": request.match_info["name"] in request.app[COLLECTIONS].names()}))


async def _create(request: web.Request) -> web.Response:
    return _json(200, _answer(await request.app[COLLECTIONS].create(request.match_info["name"], await request.read())))


async def _rewrite(request: web.Request) -> web.Response:
    """Write a collection's files anew; Qdrant proper has no such call."""
    return _json(200, _answer(await request.app[COLLECTIONS].rewrite(request.match_info["name"])))


async def _drop(request: web.Request) -> web.Response:
    return _json(200, _answer(await request.app[COLLECTIONS].drop(request.match_info["name"])))


@web.middleware
async def _faults(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        for parameter in request.query:
            if parameter not in _PARAMETERS:
                raise unsupported(f"the parameter `{parameter:.60}`")
        return await handler(request)
    except RequestError as error:
        return _fault(error.status, str(error))
    except ValidationError as error:
        return _fault(400, f"Format error in JSON body: {_describe(error)}")
    except orjson.JSONDecodeError as error:
        return _fault(400, f"Format error in JSON body: {error!s:.300}")
    except web.HTTPException as error:
        where = f"{request.method} {unquote(request.path):.100}"
        return _fault(error.status, f"{where}: {error.reason}; the embedded Qdrant supports only the calls of eunoe")
    except Exception as error:
        logger.exception("request failed: %s %s", request.method, request.path)
        return _fault(500, f"Service internal error: {error!s:.300}")


def _describe(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in faults[:3])


def _answer(result: object, started: float | None = None) -> bytes:
    seconds = 0.0 if started is None else time.perf_counter() - started
    return orjson.dumps({"result": result, "status": "ok", "time": seconds})


def _fault(status: int, text: str) -> web.Response:
    return _json(status, orjson.dumps({"result": None, "status": {"error": text}, "time": 0.0}))


def _json(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")
