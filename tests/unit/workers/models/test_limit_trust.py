"""Limits that an endpoint tells: when one is believed, and for how long."""

from eunoe.workers.models.endpoint.limit_trust import FIRST_PATIENCE, MAX_DOUBTS, MAX_PATIENCE, LimitTrust


def test_the_first_limit_is_believed_and_so_is_one_that_nothing_contradicts():
    trust, believed = LimitTrust().after_refusal(4096)
    assert believed
    assert trust.after_taking(3000).after_refusal(3000)[1]


def test_a_limit_below_what_was_taken_is_believed_after_several_refusals_in_a_row():
    trust, heard = LimitTrust().after_taking(8000), []
    for _ in range(MAX_DOUBTS):
        trust, believed = trust.after_refusal(2600)
        heard.append(believed)
    assert heard == [False] * (MAX_DOUBTS - 1) + [True]
    assert trust.after_refusal(2600)[1], "from now on at once"


def test_a_larger_request_that_is_taken_ends_the_doubt_and_a_smaller_one_does_not():
    doubted = LimitTrust().after_taking(8000)
    for _ in range(MAX_DOUBTS - 1):
        doubted, _ = doubted.after_refusal(2600)
    assert doubted.after_taking(2600).after_refusal(2600)[1]
    assert not doubted.after_taking(2601).after_refusal(2600)[1]
    assert doubted.after_taking(2601).taken == 8000


def test_a_limit_is_forgotten_after_ever_more_questions():
    trust, asked = LimitTrust(), []
    for _ in range(9):
        count, lapses = 0, False
        while not lapses:
            trust, lapses = trust.after_holding_back()
            count += 1
        asked.append(count)
        trust, believed = trust.after_refusal(4096)
        assert believed
    assert asked[:3] == [FIRST_PATIENCE, 2 * FIRST_PATIENCE, 4 * FIRST_PATIENCE]
    assert asked[-1] == MAX_PATIENCE
