"""`eunoe worker`: which stages a process runs."""

import pytest

from eunoe.deploy.cli.worker import choose_stages
from eunoe.deploy.process.worker import check_asked_partitions
from eunoe.schemas.errors import Refused
from eunoe.workers.registry import GROUPS, STAGES


def test_two_groups_share_out_all_stages_and_what_answers_stands_apart():
    assert sorted(GROUPS["replies"] + GROUPS["memory"]) == sorted(GROUPS["all"]) == sorted(STAGES)
    assert GROUPS["replies"] == ("intake", "blend", "respond")


def test_stages_are_named_by_themselves_or_as_a_group_and_run_once():
    assert choose_stages(["all"]) == list(STAGES)
    assert choose_stages(["tree", "replies", "intake"]) == ["tree", "intake", "blend", "respond"]


def test_what_is_no_stage_is_refused_with_what_there_is():
    with pytest.raises(Refused, match=r"no stage remember; there are intake, .* the groups all, replies, memory"):
        choose_stages(["all", "remember"])


@pytest.mark.parametrize(("asked", "found", "log"), [(None, 48, 0), (12, 12, 0), (12, 48, 1)])
def test_the_partitions_of_the_log_are_those_that_were_asked_for(asked: int | None, found: int, log: int):
    check_asked_partitions(asked, found, log)


def test_other_partitions_than_the_log_has_are_refused_with_what_to_set():
    with pytest.raises(Refused, match=r"EUNOE_PARTITIONS is 12, and the log has 48 .*set EUNOE_PARTITIONS=48"):
        check_asked_partitions(12, 48, 0)
