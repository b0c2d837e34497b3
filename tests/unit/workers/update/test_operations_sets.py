"""Algorithm 1 of Keep Me Updated as a function over sets, and what it comes to in the lifecycle."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.workers.update.operations import next_memory, resolve_operations
from eunoe.workers.update.operator import Operation, OperationVerdict

P, R, A, D, F = Operation.PASS, Operation.REPLACE, Operation.APPEND, Operation.DELETE, Operation.FUSE
LETTERS = {"P": P, "R": R, "A": A, "D": D, "F": F}


def verdicts(**told: str) -> dict[tuple[str, str], OperationVerdict]:
    """``m1s2="R"``: REPLACE of the pair (m1, s2)."""
    return {
        (name[:2], name[2:]): OperationVerdict(LETTERS[letter], name, "fused text") for name, letter in told.items()
    }


def test_figure_4s_updates():
    starving, sleeping = "Starving because of a stomachache", "Sleeping well"
    told = ["Had a stomachache but recovered", "Sleeping well", "Goes to lake park"]
    first = next_memory([], [starving, sleeping], {})
    assert first.memories + first.sentences == (starving, sleeping)
    answers = {(starving, told[0]): OperationVerdict(D), (sleeping, told[1]): OperationVerdict(P)}
    second = next_memory([starving, sleeping], told, answers)
    assert second.memories + second.sentences == ("Sleeping well", "Goes to lake park")
    more = ["Eating properly", "Receiving physiotherapy because of sore back"]
    third = next_memory(second.memories + second.sentences, more, {})
    assert third.memories + third.sentences == ("Sleeping well", "Goes to lake park", *more)


@pytest.mark.parametrize(
    ("operation", "memories", "sentences"),
    [(P, ("m1",), ()), (R, (), ("s1",)), (A, ("m1",), ("s1",)), (D, (), ())],
)
def test_each_operation_alone(operation: Operation, memories: tuple[str, ...], sentences: tuple[str, ...]):
    sets = next_memory(["m1"], ["s1"], {("m1", "s1"): OperationVerdict(operation)})
    assert (sets.memories, sets.sentences) == (memories, sentences)


def test_a_pass_from_a_memory_that_goes_does_not_drop_the_sentence():
    sets = next_memory(["m1"], ["s1", "s2"], verdicts(m1s1="R", m1s2="P"))
    assert (sets.memories, sets.sentences) == ((), ("s1", "s2"))


def test_a_replacing_sentence_that_passes_gives_its_place_to_what_it_repeats():
    applied = resolve_operations(["m1", "m2"], ["s1"], verdicts(m1s1="P", m2s1="R"))
    assert [(fate.id, fate.by) for fate in applied.ended] == [("m2", "m1")]
    assert [(fate.id, fate.by) for fate in applied.dropped] == [("s1", "m1")]
    assert [(noted.memory, noted.sentence) for noted in applied.repeated] == [("m1", "s1")]


def test_a_memory_is_retired_where_its_replacement_is_deleted_with_another():
    applied = resolve_operations(["m1", "m2"], ["s1"], verdicts(m1s1="D", m2s1="R"))
    assert [(fate.id, fate.by) for fate in applied.ended] == [("m1", None), ("m2", None)]
    assert [(fate.id, fate.by) for fate in applied.dropped] == [("s1", None)]


def test_the_first_sentence_that_stays_is_the_successor():
    applied = resolve_operations(["m1", "m2"], ["s1", "s2", "s3"], verdicts(m1s1="R", m1s2="R", m1s3="R", m2s1="D"))
    assert [(fate.id, fate.by) for fate in applied.ended] == [("m1", "s2"), ("m2", None)]


def test_fusion_takes_each_memory_and_sentence_once_and_only_those_that_stay():
    told = verdicts(m1s1="F", m2s1="F", m1s2="F", m3s3="F", m3s2="R")
    applied = resolve_operations(["m1", "m2", "m3"], ["s1", "s2", "s3"], told)
    assert [(fusion.memory, fusion.sentence) for fusion in applied.merges] == [("m1", "s1")]


def test_a_suspicion_is_noted_where_both_stay():
    suspicious = {
        ("m1", "s1"): OperationVerdict(A, "why", suspect=True),
        ("m2", "s1"): OperationVerdict(A, suspect=True),
        ("m2", "s2"): OperationVerdict(R),
    }
    applied = resolve_operations(["m1", "m2"], ["s1", "s2"], suspicious)
    assert [(noted.memory, noted.sentence, noted.because) for noted in applied.suspected] == [("m1", "s1", "why")]


MEMORIES, SENTENCES = ["m1", "m2", "m3"], ["s1", "s2", "s3"]
ANSWERS = st.fixed_dictionaries(
    {
        pair: st.sampled_from(list(Operation)).map(lambda op: OperationVerdict(op, "x", "t"))
        for pair in product(MEMORIES, SENTENCES)
    }
)


@given(ANSWERS)
def test_the_lifecycle_says_what_the_sets_say(answers: dict[tuple[str, str], OperationVerdict]):
    sets, applied = next_memory(MEMORIES, SENTENCES, answers), resolve_operations(MEMORIES, SENTENCES, answers)
    assert {fate.id for fate in applied.ended} == set(MEMORIES) - set(sets.memories)
    assert {fate.id for fate in applied.dropped} == set(SENTENCES) - set(sets.sentences)
    stays = {*sets.memories, *sets.sentences}
    assert all(fate.by is None or fate.by in stays for fate in (*applied.ended, *applied.dropped))
    assert {noted.memory for noted in applied.repeated} <= set(sets.memories)
