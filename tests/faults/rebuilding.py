"""Memory made again from the log of a house, without a model: it must be the same."""

import json

from eunoe.deploy.clients.bootstrap import open_qdrant
from eunoe.deploy.clients.shared import open_store, store_keys
from eunoe.schemas.records import RecordedAnswer
from eunoe.streams.codec import decode
from eunoe.streams.reader import read_all
from eunoe.streams.topics import Topic
from eunoe.workers.stores.vectors.qdrant import QdrantIndex
from tests.faults.findings import Findings
from tests.faults.house import House
from tests.support.command import eunoe
from tests.support.whole_state import read_states

GENERATION = "again"
_TIMEOUT_S = 400.0


async def rebuild(house: House, faults: list[str], *, by_time: bool) -> Findings:
    """What a rebuild remembers; what is wrong with the rebuild itself is added to ``faults``.

    ``by_time``: some decisions must have been made by the time alone.
    """
    asked = house.model.stats["chat"]
    result = await eunoe(
        "rebuild", "--into", GENERATION, "--json", cwd=house.directory, timeout_s=_TIMEOUT_S, **house.variables
    )
    if result.code != 0:
        faults.append(f"the rebuild ended with {result.code}: {result.err[-500:]}")
        return Findings()
    told = json.loads(result.out)
    if told["calls"] or house.model.stats["chat"] != asked:
        faults.append(f"the rebuild asked the model {house.model.stats['chat'] - asked} times")
    if by_time and not await _outcomes(house):
        faults.append("time decided nothing: no turn went without memory, so this run shows little")
    findings = await _findings(house)
    faults += findings.lost[:5]
    return findings


async def _outcomes(house: House) -> int:
    """How many decisions stand recorded that only time made so."""
    settings = house.settings
    records = read_all(settings.kafka_settings, settings.names, Topic.ANSWERS)
    answers = [decode(record.value) async for record in records]
    return sum(isinstance(answer, RecordedAnswer) and answer.request.startswith("moment:") for answer in answers)


async def _findings(house: House) -> Findings:
    settings = house.settings.model_copy(update={"generation": GENERATION})
    findings = Findings()
    async with open_store(settings) as store, open_qdrant(settings) as client:
        index = QdrantIndex(client, store_keys(settings))
        for state in await read_states(store, index, await store.conversations()):
            findings.states[state.digest.key] = state
            findings.digests[state.digest.key] = state.digest.sha256
            findings.lost += [f"{state.digest.key}: {found.kind} {found.id}" for found in state.findings]
    return findings
