"""Refined timelines: the notes replace them, no note means none, and relations are explained where they are shown."""

from datetime import timedelta

import pytest

from eunoe.schemas.events import Line, Strategy
from eunoe.schemas.model_ports import Prompt
from eunoe.schemas.relations import MEANINGS, Relation, describe_relations
from eunoe.schemas.replies import Source
from eunoe.workers.models.questions.answer_forms import NoteRow, ReplyForm
from eunoe.workers.respond.context import Context, Row, line_row
from eunoe.workers.respond.fused.layout import lay_out_units
from eunoe.workers.respond.fused.units import PackedUnit, tokens_of
from eunoe.workers.respond.model import ModelReplier
from eunoe.workers.respond.offline.replier import OfflineReplier
from eunoe.workers.respond.prompt import REFINE
from eunoe.workers.respond.replier import ReplyTask
from eunoe.workers.respond.settings import Refine
from eunoe.workers.text.tokens import count_tokens
from tests.support.in_memory import START, HashEmbedder

ROOF, RAIN, TILES = "The roof leaked.", "Ann has a leaking roof.", "Ann bought new tiles."
REASON = (Relation.REASON,)


class Refining:
    """A model that gives these notes, and then a reply."""

    name = "refining"

    def __init__(self, *notes: NoteRow) -> None:
        self.notes = notes
        self.prompts: list[Prompt] = []

    async def answer(self, prompt: Prompt, form: type, *, urgent: bool = False) -> object:
        self.prompts.append(prompt)
        assert form is ReplyForm
        return ReplyForm(notes=self.notes) if prompt.name.startswith(REFINE) else ReplyForm(text="Yes.")


def said(text: str, number: int) -> PackedUnit:
    line = Line(utterance_id=f"u{number}", speaker="Ann", text=text, at=START)
    row = line_row(0, line)
    return PackedUnit(1.0, (1, number, 0, 0), (row,), source(Strategy.SEGMENT, f"s{number}"), tokens_of([row]))


def source(kind: Strategy, id_: str, relations: tuple[Relation, ...] = ()) -> Source:
    return Source(kind=kind, id=id_, session=1, at=START, utterance_ids=("u1",), score=1.0, relations=relations)


def timeline(number: int) -> PackedUnit:
    rows = tuple(
        Row(0, "Ann", text, START + timedelta(days=day), (f"t{day}",), is_memory=True)
        for day, text in enumerate((RAIN, TILES))
    )
    shown = source(Strategy.TIMELINE, f"t{number}", REASON)
    return PackedUnit(1.0, (1, number, 0, 1), rows, shown, 20, REASON, ("1 January 2026", "2 January 2026"))


async def asked(context: Context, refine: Refine, *notes: NoteRow) -> list[Prompt]:
    """The prompts of one reply."""
    model = Refining(*notes)
    question = Line(utterance_id="q", speaker="Ben", text="Did it rain?", at=START)
    replier = ModelReplier(model, OfflineReplier(HashEmbedder()), refine)
    await replier.reply(ReplyTask("agent", question, (), context, ("Ann", "Ben")))
    return model.prompts


MIXED = lay_out_units([said(ROOF, 1), timeline(2), said("It was cold.", 3)])
ALONE = lay_out_units([timeline(1)])


async def test_notes_replace_the_timelines_and_stand_behind_the_other_rows():
    _, reply = await asked(MIXED, Refine.SEPARATE, NoteRow(cited=(2, 3), text="Her roof leaked."))
    assert [text in reply.user for text in (ROOF, "It was cold.", "- Her roof leaked. (rows 2, 3)")] == [True] * 3
    assert RAIN not in reply.user
    assert TILES not in reply.user


@pytest.mark.parametrize("context", [MIXED, ALONE], ids=["beside other rows", "alone"])
async def test_without_a_note_no_timeline_is_shown(context: Context):
    _, reply = await asked(context, Refine.SEPARATE)
    assert RAIN not in reply.user
    assert TILES not in reply.user
    assert (ROOF in reply.user) == (context is MIXED)
    assert ("(nothing is remembered)" in reply.user) == (context is ALONE)


def test_rows_of_timelines_can_be_cited_through_notes_only():
    assert [row.number for row in MIXED.without_timelines("- a note (rows 2)").rows] == [1, 2, 3, 4]
    left = MIXED.without_timelines()
    assert [row.number for row in left.rows] == [1, 4]
    assert left.text.splitlines() == ["1 January 2026", f"1 Ann: {ROOF}", "4 Ann: It was cold."]
    assert left.tokens == count_tokens(left.text)
    assert not left.has_timelines


@pytest.mark.parametrize("refine", [Refine.FUSED, Refine.OFF])
async def test_relations_are_explained_where_they_are_shown(refine: Refine):
    (prompt,) = await asked(ALONE, refine)
    assert f"Reason: {MEANINGS[Relation.REASON]}" in prompt.system
    assert MEANINGS[Relation.CAUSE] not in prompt.system


async def test_a_separate_refinement_explains_them_and_the_reply_no_longer_needs_them():
    refining, reply = await asked(ALONE, Refine.SEPARATE)
    assert MEANINGS[Relation.REASON] in refining.system
    assert MEANINGS[Relation.REASON] not in reply.system


async def test_nothing_is_explained_where_nothing_is_related():
    (prompt,) = await asked(lay_out_units([said(ROOF, 1)]), Refine.FUSED)
    assert not any(meaning in prompt.system for meaning in MEANINGS.values())


def test_every_relation_has_a_meaning():
    assert [row.split(":")[0] for row in describe_relations().splitlines()] == [relation.value for relation in Relation]
    assert describe_relations([Relation.WANT]).startswith("Want: as a result of what A tells, the subject wants")
