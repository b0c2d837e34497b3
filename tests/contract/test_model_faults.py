"""No behaviour of an endpoint stops a stage, but one that is away or refuses the deployment."""

import pytest

from eunoe.workers.models.questions.metering import ASKING_STAGES
from tests.support.model_faults import CASES, FaultCase, run_case

QUICK = {
    "none",
    "output cap 512",
    "context 2600, vllm's words",
    "response_format refused",
    "prose around the JSON",
    "400 to everything",
    "content filter on prompts with one of the texts",
    "no JSON to prompts with one of the texts",
    "401: wrong key",
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=() if case.name in QUICK else pytest.mark.slow) for case in CASES],
)
async def test_every_stage_goes_on_and_a_replay_decides_the_same(case: FaultCase):
    row = await run_case(case)
    assert row.waited == case.waits, row.fault
    if case.waits:
        return
    assert (row.replayed, row.replayed_calls) == (row.digest, 0)
    shares = {stage: row.offline(stage) for stage in ASKING_STAGES}
    assert all(share is not None for share in shares.values()), f"no items were counted: {shares}"
    total = sum(sum(counted.values()) for counted in row.items.values())
    offline = sum(counted["offline"] for counted in row.items.values())
    if case.helped:
        assert offline < 0.5 * total, shares
