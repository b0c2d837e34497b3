"""Consolidation: what says the same is fused, what may be another fact is not, and nothing is lost. Pure."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.schemas.memory import Memory, MemoryKind, MemoryOrigin
from eunoe.workers.update.consolidation import CONSOLIDATED, apply_fusions, is_due, offered, says_all
from eunoe.workers.update.evidence import lost_evidence
from eunoe.workers.update.lifecycle import Lifecycle
from eunoe.workers.update.memories import FusionPlace, summary_memories
from eunoe.workers.update.operator import Operation, OperationJudgement, OperationPair, OperationVerdict
from eunoe.workers.update.reads import all_endings, all_memories, all_steps
from eunoe.workers.update.settings import UpdateSettings
from tests.support.in_memory import START
from tests.support.updates import KEY, MADE, Updates, formed

SHARE = 0.9
BASE = "Ann keeps three old wooden boats with Ben in the small harbour near Lisbon beside a grey lighthouse tower"


def memory(text: str, session: int = 1, **changes: object) -> Memory:
    return summary_memories(formed(session, text))[0].model_copy(update=changes)


def test_the_fuller_text_of_two_that_say_the_same_stays():
    old, new = memory(BASE, 1), memory(f"{BASE} again", 2)
    assert says_all(old, new, SHARE) == new
    assert says_all(memory(f"{BASE} again", 1), memory(BASE, 2), SHARE) == memory(f"{BASE} again", 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("three old", "four old"),
        ("three old", "3 old"),
        ("with Ben", "with Bea"),
        ("keeps three", "never keeps three"),
        ("keeps three", "doesn't keep three"),
        ("keeps three", "plans to keep three"),
        ("near Lisbon", "near Turin"),
        ("small harbour", "large harbour"),
        ("Ann keeps", "Ann's sister keeps"),
        ("Ann keeps three old wooden boats with Ben", "Ben keeps three old wooden boats with Ann"),
    ],
)
def test_what_may_be_another_fact_is_refused(one: str, other: str):
    assert one in BASE
    old, new = memory(BASE, 1), memory(BASE.replace(one, other), 2)
    assert says_all(old, new, SHARE) is None
    assert says_all(new.model_copy(update={"session": 1}), old.model_copy(update={"session": 2}), SHARE) is None


DENIALS = (
    ("Ich mag den neuen Chef im Krankenhaus in der Stadt sehr und arbeite dort gern", "sehr", "gar nicht sehr"),
    ("Je veux retourner vivre à Lyon avec mes parents et mon frère l'année prochaine", "veux", "ne veux pas"),
    ("Mi hermano Pedro puede comer cacahuetes y nueces en casa de mis padres", "puede", "nunca puede"),
    ("A Maria gosta do novo chefe do hospital e trabalha com a irmã do marido", "gosta", "jamais gosta"),
    ("Я очень люблю свою новую работу в больнице в центре города и хочу остаться там", "очень", "очень не"),
)
"""Sentences of ten words and more, each with what denies it in its language."""


@pytest.mark.parametrize(("text", "one", "other"), DENIALS)
def test_outside_english_only_the_same_words_are_fused(text: str, one: str, other: str):
    told, denied = f'Ann said: "{text}."', f'Ann said: "{text.replace(one, other)}."'
    assert says_all(memory(told, 1), memory(denied, 2), 0.8) is None
    assert says_all(memory(denied, 1), memory(told, 2), 0.8) is None
    assert says_all(memory(told, 1), memory(told.upper(), 2), 0.8) is not None


@pytest.mark.parametrize(
    "changes", [{"speaker": "Ben"}, {"kind": MemoryKind.PLAN}, {"expires_at": START + timedelta(days=9)}]
)
def test_another_person_kind_or_end_is_refused(changes: dict[str, object]):
    assert says_all(memory(BASE, 1), memory(BASE, 2, **changes), SHARE) is None


TEXTS = [BASE, f"{BASE} again", f"Well {BASE}", BASE.replace("three", "four"), BASE.replace("keeps", "never keeps")]
PAIRS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20)


@given(st.lists(st.sampled_from(TEXTS), min_size=8, max_size=8), PAIRS, st.randoms())
def test_any_order_of_the_pairs_gives_the_same_fusions(texts: list[str], places: list[tuple[int, int]], chance):
    known = [memory(text, number) for number, text in enumerate(texts, 1)]
    pairs = [(known[one], known[other]) for one, other in places]
    shuffled = [pair if chance.random() < 0.5 else pair[::-1] for pair in [*pairs, *pairs[:3]]]
    chance.shuffle(shuffled)
    found = offered(pairs, SHARE)
    assert offered(shuffled, SHARE) == found
    parts = [part.memory_id for fusion in found for part in (fusion.old, fusion.new)]
    assert len(parts) == len(set(parts))


@given(st.lists(st.sampled_from(TEXTS), min_size=2, max_size=8))
def test_a_fusion_loses_no_number_no_denial_and_no_evidence(texts: list[str]):
    known = [memory(text, number) for number, text in enumerate(texts, 1)]
    life = Lifecycle(9, known)
    fusions = offered(((one, other) for one in known for other in known), SHARE)
    apply_fusions(life, fusions, FusionPlace(KEY, 9, 0, 0), START)
    after = {one.memory_id: one for one in [*known, *life.touched]}
    assert lost_evidence({id_: one.ending for id_, one in after.items()}, []) == []
    telling = {word for one in known for word in one.text.split() if word in {"three", "four", "never"}}
    assert {word for one in life.current for word in one.text.split() if word in telling} == telling
    for fusion, new in zip(fusions, (one for one in life.touched if one.origin is MemoryOrigin.FUSION), strict=True):
        cited = {line.utterance_id for line in new.evidence}
        assert cited == {line.utterance_id for part in (fusion.old, fusion.new) for line in part.evidence}
        ends = [one.ending for one in life.touched if one.ending is not None and one.ending.by == new.memory_id]
        assert [end.because for end in ends] == [CONSOLIDATED] * 2


def test_it_is_due_whenever_so_many_memories_have_come():
    assert [is_due(before, before + 3, 4) for before in range(6)] == [False, True, True, True, False, True]
    assert not is_due(0, 1_000, 0)


class Blind:
    """An operator that sees no relation between any two sentences."""

    reads_meaning = True

    async def operate(self, pairs: list[OperationPair]) -> OperationJudgement:
        return OperationJudgement(tuple(OperationVerdict(Operation.APPEND, "") for _ in pairs), MADE)


SAID = [
    [BASE, "Ann bakes bread for the choir."],
    [f"{BASE} again", "Ann paints the garden wall."],
    ["Ann lost the tax papers.", "Ann sold the red bicycle."],
    ["Ann wrote about the marathon.", "Ann repaired the telescope."],
]


@pytest.mark.parametrize(("every", "holding"), [(0, 8), (5, 7)])
async def test_the_writer_fuses_what_its_sessions_let_pass(every: int, holding: int):
    updates = Updates(Blind(), settings=UpdateSettings(consolidate_every=every, linked=False, reach=False))
    await updates.hear(*(formed(number, *texts) for number, texts in enumerate(SAID, 1)))
    assert len(await updates.current()) == holding
    memories = {one.memory_id: one for one in await all_memories(updates.store, KEY)}
    assert lost_evidence(await all_endings(updates.store, KEY), await all_steps(updates.store, KEY)) == []
    fused = [one for one in memories.values() if one.origin is MemoryOrigin.FUSION]
    assert [(one.text, one.session, len(one.evidence)) for one in fused] == [(f"{BASE} again", 3, 2)] * bool(every)
    events = [formed(number, *texts) for number, texts in enumerate(SAID, 1)]
    again = Updates(Blind(), settings=UpdateSettings(consolidate_every=every, linked=False, reach=False))
    await again.hear(*reversed(events * 2))
    assert again.everything() == updates.everything()


def test_pairs_are_told_apart_without_a_hash_of_all_of_a_memory(monkeypatch: pytest.MonkeyPatch):
    old, new = memory(BASE, 1), memory(BASE, 2)
    monkeypatch.setattr(Memory, "__hash__", None)
    assert [(fusion.old, fusion.new) for fusion in offered([(new, old), (old, new)], SHARE)] == [(old, new)]
