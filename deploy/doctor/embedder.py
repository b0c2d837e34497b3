"""The check of the embedder."""

from eunoe.deploy.clients.models import Environment, endpoint
from eunoe.deploy.doctor.endpoint.probe import Prober
from eunoe.deploy.doctor.findings import Findings
from eunoe.deploy.settings import Settings
from eunoe.schemas.errors import Refused, Unavailable

PROBE_TEXT = "She moved to Lyon last spring."
"""The text by which an endpoint is asked for the length of its vectors."""


async def check_embedder(settings: Settings, environment: Environment, findings: Findings) -> None:
    """Add the embedder; of an endpoint the length of its vectors. Raises `Refused`, `Unavailable`."""
    kind, _, rest = settings.embedding.partition(":")
    if kind != "endpoint":
        _local(kind, rest, findings)
        return
    model, _, dimensions = rest.rpartition(":")
    if not model or not dimensions.isdecimal():
        model, dimensions = rest.rstrip(":"), "0"
    prober = Prober(endpoint(settings, environment, model))
    try:
        findings.step("one text")
        answer = await prober.embed(PROBE_TEXT, model)
    finally:
        await prober.aclose()
    if answer.fault is not None:
        raise (
            answer.fault
            if isinstance(answer.fault, Refused | Unavailable)
            else Unavailable(str(answer.fault), prober.endpoint.server)
        )
    length = _length(answer.body)
    if length is None:
        findings.fault(f"{prober.endpoint.server} answers /embeddings with no vector: it is no embedding model")
    elif length != int(dimensions):
        findings.fault(
            f"{prober.endpoint.server} makes vectors of {length} numbers, not {dimensions}",
            {"EUNOE_EMBEDDING": f"endpoint:{model}:{length}"},
        )
    else:
        findings.ok(f"{prober.endpoint.server}: vectors of {length} numbers in {answer.seconds:.1f} s")


def _local(kind: str, rest: str, findings: Findings) -> None:
    if kind == "wordllama" and not rest:
        findings.ok("wordllama, in this process; it knows English best")
    elif kind == "fastembed":
        findings.ok(f"fastembed {rest}".strip() + ", in this process")
    else:
        findings.fault(
            f"EUNOE_EMBEDDING names no embedder: {kind!r}; use wordllama, fastembed:MODEL or endpoint:MODEL:DIMENSIONS"
        )


def _length(body: object) -> int | None:
    data = body.get("data") if isinstance(body, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    vector = first.get("embedding") if isinstance(first, dict) else None
    return len(vector) if isinstance(vector, list) else None
