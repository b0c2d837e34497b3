"""Replies: what a model may say and what becomes of its faults, what is quoted without a model, what is cited."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from eunoe.schemas.decisions import Commit, Put, Scope, Work
from eunoe.schemas.errors import AnswerInvalid, Unavailable
from eunoe.schemas.events import Ask, Line, Provenance, ReplyContext, Strategy
from eunoe.schemas.model_ports import Prompt
from eunoe.schemas.replies import Reply, Source
from eunoe.workers.compress.segments import SegmentStats
from eunoe.workers.compress.tables import NAME as COMPRESS
from eunoe.workers.compress.tables import STATS
from eunoe.workers.models.questions.answer_forms import NoteRow, ReplyForm
from eunoe.workers.models.questions.asking import is_correcting
from eunoe.workers.respond.context import Context, Row, make_context, write_row
from eunoe.workers.respond.hints import read_question
from eunoe.workers.respond.model import ModelReplier
from eunoe.workers.respond.offline.line_choice import choose_lines
from eunoe.workers.respond.offline.replier import NOTHING, OfflineReplier
from eunoe.workers.respond.prompt import with_dates
from eunoe.workers.respond.recall.sources import Query
from eunoe.workers.respond.replier import DraftReply, ReplyTask
from eunoe.workers.respond.settings import Refine, RespondSettings
from eunoe.workers.respond.stage import Cited, RespondStage, error_reply
from eunoe.workers.respond.tables import CITED, NAME
from eunoe.workers.stores.state.memory_store import MemoryStore
from tests.support.in_memory import HashEmbedder

START = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "default/c"
SPEAKERS = ("Ann", "Ben")


def row(number: int, text: str, *, speaker: str = "Ann", day: int = 0, **more: object) -> Row:
    return Row(number, speaker, text, START + timedelta(days=day), (f"u{number}",), **more)


def line(text: str, speaker: str = "Ann") -> Line:
    return Line(utterance_id="q", speaker=speaker, text=text, at=START + timedelta(days=90))


def context(*rows: Row, kind: Strategy = Strategy.SEGMENT) -> Context:
    source = Source(kind=kind, id="s1", session=1, at=START, utterance_ids=("u1",), score=1)
    return make_context(list(map(write_row, rows)), [source], rows)


def task(*rows: Row, asked: str = "where is my boat?", kind: Strategy = Strategy.SEGMENT) -> ReplyTask:
    return ReplyTask("Ben", line(asked), (), context(*rows, kind=kind), SPEAKERS)


async def test_a_quotation_never_goes_over_a_gap():
    parts = ("The hull is blue.", "My boat is in Oslo.")
    cut = row(1, f"… {parts[0]} … {parts[1]} …", excerpts=parts)
    reply = await OfflineReplier(HashEmbedder()).reply(task(cut))
    assert "“My boat is in Oslo.”" in reply.text
    assert "…" not in reply.text
    assert {one.cites for one in reply.cited} == {("u1",)}


class Scripted:
    """Answers as it was told to, in order; the last one for ever."""

    name = "scripted"

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.prompts: list[Prompt] = []

    async def answer(self, prompt, form, *, urgent=False):
        assert urgent
        self.prompts.append(prompt)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, form)
        return answer


BOAT = row(1, "my boat is in Oslo")
GOOD = ReplyForm(cited=(1,), text="In Oslo.")
FAULTS = [
    ReplyForm(cited=(7,), text="In Oslo."),
    ReplyForm(cited=(1,), text="  "),
    ReplyForm(cited=(1,), text="**Ann:** Where is my  boat?"),
    AnswerInvalid("not JSON"),
    AnswerInvalid("cut off"),
]


def replier(model: Scripted, refine: Refine = Refine.OFF) -> ModelReplier:
    return ModelReplier(model, OfflineReplier(HashEmbedder()), refine)


async def test_a_good_answer_takes_one_call_and_cites_the_row():
    model = Scripted(GOOD)
    answer = await replier(model).reply(task(BOAT))
    assert (answer.text, answer.cited, answer.made_by.fallback) == ("In Oslo.", (BOAT,), False)
    assert len(model.prompts) == 1


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_named_in_one_correcting_retry(fault):
    model = Scripted(fault, GOOD)
    answer = await replier(model).reply(task(BOAT))
    assert answer.text == "In Oslo."
    assert [is_correcting(prompt) for prompt in model.prompts] == [False, True]


@pytest.mark.parametrize("fault", FAULTS[1:])
async def test_after_two_faults_the_offline_twin_answers_and_says_so(fault):
    model = Scripted(fault)
    answer = await replier(model).reply(task(BOAT))
    assert len(model.prompts) == 2
    assert answer.made_by.fallback
    assert answer.cited == (BOAT,)
    assert "Oslo" in answer.text
    assert (answer.made_by.items, answer.made_by.fell_back) == (1, 1)


async def test_a_greeting_may_be_returned():
    answer = await replier(Scripted(ReplyForm(text="How are you?"))).reply(task(BOAT, asked="how are you?"))
    assert (answer.text, answer.made_by.fallback) == ("How are you?", False)


async def test_a_reply_that_cites_twice_what_was_not_offered_stays_without_the_citation():
    model = Scripted(ReplyForm(cited=(1, 7), text="In Oslo."))
    answer = await replier(model).reply(task(BOAT))
    assert (answer.text, answer.cited, answer.made_by.fallback) == ("In Oslo.", (BOAT,), False)
    assert len(model.prompts) == 2


async def test_a_reply_that_counts_rows_from_0_stays_without_citations():
    tent = row(2, "my tent is in Bergen")
    answer = await replier(Scripted(ReplyForm(cited=(0, 1), text="In Oslo."))).reply(task(BOAT, tent))
    assert (answer.text, answer.cited, answer.made_by.fallback) == ("In Oslo.", (), False)


async def test_the_numbers_of_rows_in_a_text_are_citations_and_no_part_of_it():
    tent = row(2, "my tent is in Rome")
    answer = await replier(Scripted(ReplyForm(cited=(1,), text="In Oslo (row 1), and the tent in Rome [2]."))).reply(
        task(BOAT, tent)
    )
    assert (answer.text, answer.cited) == ("In Oslo, and the tent in Rome.", (BOAT, tent))


async def test_the_numbers_in_a_text_that_counts_rows_from_0_are_no_citations():
    tent = row(2, "my tent is in Rome")
    answer = await replier(Scripted(ReplyForm(cited=(0, 1), text="In Oslo [0], and the tent in Rome [1]."))).reply(
        task(BOAT, tent)
    )
    assert (answer.text, answer.cited) == ("In Oslo, and the tent in Rome.", ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Ben: In Oslo.", "In Oslo."),
        (" ben: In Oslo.", "In Oslo."),
        ("**Ben:** In Oslo.", "In Oslo."),
        ("**Ben**: **In Oslo.**", "**In Oslo.**"),
        ("Ben：在奥斯陆。", "在奥斯陆。"),
        ("Benny: a song of Oslo.", "Benny: a song of Oslo."),
        ("Ann: In Oslo.", "Ann: In Oslo."),
        ("Ben is in Oslo: ask him.", "Ben is in Oslo: ask him."),
        ("Ben:", "Ben:"),
        ("**In Oslo**", "**In Oslo**"),
        ("Ben", "Ben"),
    ],
)
async def test_a_reply_does_not_begin_with_the_name_of_who_speaks(text: str, said: str):
    answer = await replier(Scripted(ReplyForm(cited=(1,), text=text))).reply(task(BOAT))
    assert answer.text == said


class Narrow(Scripted):
    """Takes prompts up to so many characters."""

    def __init__(self, most: int) -> None:
        super().__init__(ReplyForm(cited=(16,), text="In Oslo."))
        self.most = most

    async def fits(self, prompt: Prompt) -> bool:
        return len(prompt.user) <= self.most

    def limit_s(self, *, urgent: bool) -> float | None:
        return None


async def test_a_prompt_too_long_for_the_endpoint_shows_the_latest_half_of_memory():
    rows = [row(number, f"fact number {number} " + "x" * 50, day=number) for number in range(1, 17)]
    model = Narrow(1000)
    answer = await replier(model).reply(task(*rows))
    (prompt,) = model.prompts
    assert len(prompt.user) <= model.most
    assert "fact number 16 " in prompt.user
    assert "fact number 1 " not in prompt.user
    assert (answer.text, answer.cited) == ("In Oslo.", (rows[-1],))


async def test_an_endpoint_that_is_down_is_no_bad_answer():
    with pytest.raises(Unavailable):
        await replier(Scripted(Unavailable("down"))).reply(task(BOAT))


NOTES = (NoteRow(cited=(1,), text="the boat is in Oslo"),)


@pytest.mark.parametrize(
    ("refine", "answers", "calls"),
    [
        (Refine.SEPARATE, (ReplyForm(notes=NOTES), GOOD), 2),
        (Refine.FUSED, (ReplyForm(notes=NOTES, cited=(1,), text="In Oslo."),), 1),
        (Refine.OFF, (GOOD,), 1),
    ],
)
async def test_refining_costs_the_calls_that_its_setting_says(refine, answers, calls):
    model = Scripted(*answers)
    answer = await replier(model, refine).reply(task(BOAT, kind=Strategy.TIMELINE))
    assert (answer.text, len(model.prompts)) == ("In Oslo.", calls)
    if refine is Refine.SEPARATE:
        assert "- the boat is in Oslo (rows 1)" in model.prompts[-1].user


@pytest.mark.parametrize("refine", Refine)
async def test_what_has_no_timelines_is_not_refined(refine):
    model = Scripted(GOOD)
    await replier(model, refine).reply(task(BOAT))
    assert len(model.prompts) == 1


async def test_notes_at_fault_twice_leave_the_raw_timelines():
    model = Scripted(
        ReplyForm(notes=(NoteRow(cited=(), text="x"),)), ReplyForm(notes=(NoteRow(cited=(9,), text="x"),)), GOOD
    )
    answer = await replier(model, Refine.SEPARATE).reply(task(BOAT, kind=Strategy.TIMELINE))
    assert answer.text == "In Oslo."
    assert len(model.prompts) == 3
    assert write_row(BOAT) in model.prompts[-1].user
    assert (answer.made_by.fallback, answer.made_by.items, answer.made_by.fell_back) == (False, 2, 1)


async def test_a_persona_is_part_of_the_instructions_and_a_name_is_data():
    model = Scripted(GOOD)
    asked = replace(task(BOAT), speak_as="Bot {x}", persona="You are Mia, warm and brief.")
    await replier(model).reply(asked)
    (prompt,) = model.prompts
    assert "You are Mia, warm and brief." in prompt.system
    assert "Mia" not in prompt.user
    assert "Bot {x}" in prompt.user
    assert "Bot {x}" not in prompt.system


def test_days_that_are_headings_carry_their_weekday_and_relative_words_below_them_their_days():
    text = (
        "8 May 2023\n1 Ann: On 8 May 2023 I moved.\n"
        "2 Ann: My operation is tomorrow.\n31 February 2023\n3 Ann: Not today.\n"
        "1 January 2024\n4 Ann married yesterday (31 December 2023).\nNoted in this session\n5 Ann came back yesterday."
    )
    assert with_dates(text).splitlines() == [
        "Monday 8 May 2023",
        "1 Ann: On 8 May 2023 I moved.",
        "2 Ann: My operation is tomorrow [9 May 2023].",
        "31 February 2023",
        "3 Ann: Not today.",
        "Monday 1 January 2024",
        "4 Ann married yesterday (31 December 2023).",
        "Noted in this session",
        "5 Ann came back yesterday.",
    ]


async def test_words_such_as_tomorrow_that_a_reply_repeats_get_the_day_that_they_meant():
    rows = (
        row(1, "My operation is tomorrow.", day=3),
        row(2, "I leave next month.", day=5),
        row(3, "Next month!", day=40),
    )
    said = ReplyForm(cited=(1, 2, 3), text="I have my operation tomorrow, and leave next month; today I rest.")
    answer = await replier(Scripted(said)).reply(task(*rows))
    assert answer.text == "I have my operation tomorrow (5 January 2026), and leave next month; today I rest."


# ---- offline


async def offline(asked: str, *rows: Row) -> DraftReply:
    return await OfflineReplier(HashEmbedder()).reply(task(*rows, asked=asked))


async def test_the_offline_twin_quotes_what_answers_with_speaker_and_day():
    answer = await offline("where is my boat?", row(1, "the weather was fine"), row(2, "my boat is in Oslo", day=3))
    assert [one.number for one in answer.cited] == [2]
    assert answer.text == "On 4 January 2026 Ann said: “my boat is in Oslo”"


async def test_it_says_so_when_nothing_answers():
    answer = await offline("who won the race?", row(1, "soup tastes fine"))
    assert (answer.text, answer.cited) == (NOTHING, ())
    assert (await offline("who won the race?")).text == NOTHING


async def test_its_own_words_are_never_quoted():
    answer = await offline("where is my boat?", row(1, "my boat is in Oslo", reply_id="r1"))
    assert answer.text == NOTHING


LIVED = (row(1, "I live in Paris"), row(2, "I live in Lyon", day=40), row(3, "we had soup", day=50))


async def test_what_holds_now_is_the_latest_alone():
    assert [one.number for one in (await offline("where do I live now?", *LIVED)).cited] == [2]
    assert [one.number for one in (await offline("where do I live now?", *LIVED[1::-1])).cited] == [2]


@pytest.mark.parametrize(
    ("later", "speaker", "chosen"),
    [
        ("I sold the Fiat and bought a Volvo", "Ann", [0, 1]),
        ("I sold the Škoda and bought a Volvo", "Ann", [0, 1]),
        ("Fiat has a museum in Turin, they say", "Ann", [0, 1]),
        ("I went to the sea in May, Ben came too", "Ann", [0]),
        ("I sold the Fiat and bought a Volvo", "Ben", [0]),
    ],
)
def test_what_holds_now_is_told_with_the_last_word_on_what_it_names(later: str, speaker: str, chosen: list[int]):
    said = (
        row(1, "I drive a red Fiat or a Škoda since May, Ben"),
        row(2, later, speaker=speaker, day=40),
        row(3, "Fiat", speaker="Ben", day=60),
    )
    hints = read_question("What does Ann drive now?", ("Ann", "Ben"))
    assert choose_lines(said, np.asarray([3.0, 0.5, 0.4]), hints) == chosen


async def test_what_was_before_is_told_with_what_came_after():
    assert [one.number for one in (await offline("where did I live before?", *LIVED)).cited] == [1, 2]


def test_a_memory_that_holds_no_more_is_never_what_holds_now():
    rows = (row(1, "lives in Paris"), row(2, "lives in Rome", day=9, is_current=False))
    scores = np.asarray([0.9, 0.9])
    assert choose_lines(rows, scores, read_question("where now?", ())) == [0]
    assert choose_lines(rows, scores, read_question("where before?", ())) == [1, 0]


@pytest.mark.parametrize(
    ("question", "chosen"),
    [("What does Ann drive?", [0]), ("What did Ann drive?", [1]), ("When is Ann's trip?", [1])],
)
def test_what_is_asked_in_the_present_tense_is_not_answered_by_what_has_ended(question: str, chosen: list[int]):
    rows = (row(1, "sold the Golf", day=9), row(2, "drives a Golf", is_current=False))
    assert choose_lines(rows, np.asarray([0.5, 2.0]), read_question(question, ("Ann", "Ben"))) == chosen


def test_where_the_best_answer_has_ended_the_latest_of_the_next_ones_is_told():
    rows = (row(1, "lives in Lyon", is_current=False), row(2, "works in Oslo"), row(3, "moved to Oslo", day=9))
    hints = read_question("Where does Ann live?", ("Ann", "Ben"))
    assert choose_lines(rows, np.asarray([3.0, 2.0, 1.5]), hints) == [2]
    assert choose_lines(rows, np.asarray([1.0, 2.0, 1.4]), hints) == [1]


@pytest.mark.parametrize("question", ["where do I live now?", "where did I live before?", "where do I live?"])
async def test_a_line_without_a_word_of_the_question_is_not_quoted_beside_the_best(question: str):
    rows = (row(1, "we live in Oslo"), row(2, "My flight to Rome is at noon, in Madrid the sun shines", day=9))
    assert [one.number for one in (await offline(question, *rows)).cited] == [1]


async def test_the_speech_of_somebody_else_is_no_answer_about_who_tells_it():
    rows = (row(1, 'Tom said "I want to live in a house in Berlin"'), row(2, "I have a room in Oslo", day=9))
    assert [one.number for one in (await offline("where do I live?", *rows)).cited] == [2]
    titles = (row(1, 'I read "The House in Berlin" twice'), row(2, "we had soup", day=9))
    assert [one.number for one in (await offline("who read the house in Berlin?", *titles)).cited] == [1]


@pytest.mark.parametrize(
    ("later", "chosen"),
    [
        ("So, Tom and I broke up on Tuesday", [0, 1]),
        ("We aren't together any more, Tom and I", [0, 1]),
        ("Tom and I went to the sea", [0]),
        ("I quit my job. Tom says hello", [0]),
    ],
)
def test_what_holds_is_told_with_the_end_of_what_it_names(later: str, chosen: list[int]):
    rows = (row(1, "My boyfriend is called Tom"), row(2, later, day=40), row(3, "I quit Tom", speaker="Ben", day=50))
    scores = np.asarray([3.0, 0.5, 0.4])
    assert choose_lines(rows, scores, read_question("Who is Ann's boyfriend?", ("Ann", "Ben"))) == chosen
    assert choose_lines(rows, scores, read_question("Who was Ann's boyfriend?", ("Ann", "Ben"))) == [0]


@pytest.mark.parametrize(
    ("question", "chosen"),
    [
        ("Did Ann go to Lisbon?", [0, 1]),
        ("Was Ann in Lisbon?", [0, 1]),
        ("When was Ann in Lisbon?", [0]),
        ("What did Ann do in Lisbon?", [0]),
    ],
)
def test_whether_a_plan_came_true_is_told_with_its_end(question: str, chosen: list[int]):
    rows = (row(1, "Next week I fly to Lisbon"), row(2, "The Lisbon concert was cancelled", day=9))
    assert choose_lines(rows, np.asarray([3.0, 0.5]), read_question(question, ("Ann", "Ben"))) == chosen


def test_a_line_is_quoted_with_its_speakers_correction():
    rows = (
        row(1, "I ran it in 2:05"),
        replace(row(2, "Actually it was 2:15, not 2:05"), at=START + timedelta(minutes=2)),
        replace(row(3, "Sorry, I came at 3:10, not 2:05", speaker="Ben"), at=START + timedelta(minutes=3)),
    )
    assert choose_lines(rows, np.asarray([3.0, 0.5, 0.4]), read_question("How fast was Ann?", ("Ann", "Ben"))) == [0, 1]


@pytest.mark.parametrize(
    ("later", "chosen"),
    [
        ("Correction: January 17, the van was not free", [1, 3]),
        ("Sorry, I meant the 17th", [1, 3]),
        ("*January 17", [1, 3]),
        ("*sighs* In January", [1]),
        ("I mean it, January will be cold", [1]),
        ("The correction of my book is done", [1]),
    ],
)
def test_a_line_that_announces_a_correction_corrects_the_one_before(later: str, chosen: list[int]):
    rows = (
        row(1, "We move on January 10"),
        replace(row(2, "Good luck", speaker="Ben"), at=START + timedelta(minutes=1)),
        replace(row(3, later), at=START + timedelta(minutes=2)),
        replace(row(4, "Correction: the dog stays"), at=START + timedelta(minutes=3)),
    )
    scores = np.asarray([3.0, 0.5, 0.4, 0.3])
    found = choose_lines(rows, scores, read_question("When does Ann move?", ("Ann", "Ben")))
    assert [rows[index].number for index in found] == chosen


@pytest.mark.parametrize(
    ("other", "chosen"),
    [
        ("Where do you live?", [0]),
        ("Oh? And how is Oslo?", [0]),
        ("It is in Oslo. And yours?", [0, 1]),
        ("It is in Oslo", [0, 1]),
    ],
)
def test_a_question_is_no_second_answer(other: str, chosen: list[int]):
    rows = (row(1, "I live by the fjord"), row(2, other))
    hints = read_question("Where does Ann live?", ("Ann", "Ben"))
    assert choose_lines(rows, np.asarray([3.0, 2.9]), hints) == chosen


async def test_a_memory_that_is_not_current_says_so():
    old = row(1, "Ann kept my boat in Oslo", is_memory=True, is_current=False)
    assert (await offline("where was my boat?", old)).text == "Ann kept my boat in Oslo (1 January 2026, not current)"


async def test_what_may_never_be_is_answered_by_the_harm_it_did():
    wish = row(1, "That deserves a cake without hazelnuts.", day=9)
    harm = row(2, "Good, because hazelnuts nearly did for me. Somebody brought a nut cake.", day=1)
    reply = await OfflineReplier(HashEmbedder()).reply(task(wish, harm, asked="What must never be in a cake for Ann?"))
    assert reply.cited[0] == harm


async def test_a_home_is_named_by_its_rooms_and_now_means_the_latest():
    rows = (
        row(1, "I'll take the map of the Alps down now", day=1),
        row(2, "I have a room in a shared flat in Cork", day=20),
        row(3, "It is only two rooms, but it is mine, in Galway", day=60),
    )
    assert (await offline("Where does Ann live now?", *rows)).cited[0].number == 3


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How is my mother?", "My mum is walking again"),
        ("What medication does the doctor give me?", "The doctor put me on 500 mg"),
        ("What is my salary?", "I earn 68,500 a year"),
    ],
)
async def test_another_word_of_the_same_subject_is_found(question: str, answer: str):
    said = (row(1, "The doctor came late"), row(2, "A year is long and dark", day=5), row(3, answer, day=9))
    assert [one.number for one in (await offline(question, *said)).cited][:1] == [3]


async def test_each_question_of_a_sentence_is_answered():
    rows = (row(1, "Her name is Pepper, she is nine"), row(2, "we had soup"), row(3, "the vet pulled two rotten teeth"))
    reply = await offline("What is the dog called, and what was wrong with her teeth?", *rows)
    assert [one.number for one in reply.cited] == [1, 3]


async def test_a_plan_that_did_not_happen_is_answered_by_what_denies_it():
    rows = (row(1, "the trip to Bled it is"), row(2, "Bled won't work, the ship sails that week", day=30))
    assert (await offline("Why did the trip to Bled not happen?", *rows)).cited[0].number == 2


async def test_what_is_mine_is_not_yours():
    rows = (row(1, "you'll get it for your birthday"), row(2, "a week after my birthday the parcel came", day=9))
    assert (await offline("When is Ann's birthday?", *rows)).cited[0].number == 2


async def test_what_somebody_else_did_is_no_answer():
    said = (row(1, "I won the chess cup in Oslo", speaker="Ben"), row(2, "soup tastes fine"))
    assert (await offline("When did Ann win the chess cup in Oslo?", *said)).text == NOTHING
    assert [one.number for one in (await offline("When did Ben win the chess cup in Oslo?", *said)).cited] == [1]


async def test_an_answer_to_somebody_elses_question_is_known():
    said = (row(1, "How old are you now?", speaker="Ben"), row(2, "Thirty-four."))
    assert [one.number for one in (await offline("How old is Ann?", *said)).cited][:1] == [2]
    apart = (said[0], row(2, "Thirty-four.", day=3))
    assert (await offline("How old is Ann?", *apart)).text == NOTHING


async def test_what_is_said_beside_a_question_is_not_known_to_who_answers():
    said = (row(1, "I won the chess cup in Oslo! Are you proud?", speaker="Ben"), row(2, "very"))
    assert (await offline("When did Ann win the chess cup in Oslo?", *said)).text == NOTHING


async def test_a_sentence_of_two_days_is_quoted_once():
    said = (
        row(1, "my boat is in Oslo"),
        row(2, "My  boat is in Oslo", day=9),
        row(3, "my boat is in old Oslo", day=12),
    )
    answer = await offline("where is my boat?", *said[:2])
    assert len(answer.cited) == 1
    scores = np.asarray([0.9, 0.9, 0.8])
    assert choose_lines(said, scores, read_question("where is my boat?", ())) == [0, 2]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which plan did I take?", "OK, I took the Pro plan."),
        ("Who did I meet in Oslo?", "I met Tom in Oslo."),
        ("What did I write?", "I wrote a poem."),
    ],
)
async def test_a_verb_is_found_in_the_form_of_the_answer(question: str, answer: str):
    rows = (
        row(1, "The basic plan costs nine euros, the Pro plan costs more and has three seats."),
        row(2, answer),
        row(3, "In Oslo it rains a lot."),
    )
    assert [one.number for one in (await offline(question, *rows)).cited] == [2]


@pytest.mark.parametrize("first", [3.0, 2.8])
def test_a_line_is_quoted_and_no_memory_of_it(first: float):
    rows = (
        row(1, "I bought a red bicycle"),
        replace(row(2, "Ann bought a red bicycle.", is_memory=True), cites=("u1",)),
        row(3, "It is red"),
    )
    hints = read_question("What did I buy?", SPEAKERS, "Ann")
    assert choose_lines(rows, np.asarray([first, 2.9, 0.5]), hints) == [0]
    assert choose_lines(rows, np.asarray([first, 2.9, 2.7]), hints) == [0, 2]


def test_a_memory_is_quoted_where_its_line_is_far_or_does_not_hold():
    memory = replace(row(2, "Ann bought a red bicycle.", is_memory=True), cites=("u1",))
    line, hints = row(1, "I bought it yesterday"), read_question("What did I buy?", SPEAKERS, "Ann")
    assert choose_lines((line, memory), np.asarray([0.5, 2.9]), hints) == [1]
    ended = replace(memory, past="until 3 May 2026")
    assert choose_lines((line, ended), np.asarray([2.8, 2.9]), hints) == [1]


async def test_a_reason_is_quoted_from_the_answer_to_why():
    said = (
        row(1, "I quit the bakery and work as a translator now."),
        row(2, "Why did you quit?", speaker="Ben"),
        row(3, "The hours were brutal, I had to get up at three."),
    )
    assert (await offline("Why did Ann quit the bakery?", *said)).cited[0].number == 3
    assert (await offline("When did Ann quit the bakery?", *said)).cited[0].number == 1
    elsewhere = (said[0], row(2, "Why is the sea salty?", speaker="Ben"), said[2])
    assert (await offline("Why did Ann quit the bakery?", *elsewhere)).cited[0].number == 1


# ---- the stage


class Fixed:
    """A source that gives what it was given, and notes what it was asked."""

    def __init__(self, found: Context) -> None:
        self.found = found
        self.asked: list[Query] = []

    async def recall(self, query: Query) -> Context:
        self.asked.append(query)
        return self.found


class Echo:
    """Cites every row."""

    async def reply(self, task: ReplyTask) -> DraftReply:
        return DraftReply("so it is", tuple(task.rows.values()), Provenance(code="test", model="test"))


def asked(dialogue: tuple[Line, ...] = (), **ask: object) -> Work[ReplyContext]:
    request = Ask(request_id="r9", speak_as="Ben", **ask)
    event = ReplyContext(conversation_id="c", session=4, request=request, question=line("so?"), dialogue=dialogue)
    return Work(KEY, (event,), 4, START)


async def stage(sources: dict[Strategy, Fixed], **settings: object) -> RespondStage:
    store = MemoryStore()
    stats = SegmentStats(segments=3, session=3, speakers=SPEAKERS)
    await commit(store, COMPRESS, (Put.of(STATS, STATS, stats),))
    await commit(store, NAME, (Put.of(CITED, "r1", Cited(utterance_ids=("u5", "u6"))),))
    return RespondStage(store, sources, Echo(), RespondSettings(**settings))


async def commit(store: MemoryStore, name: str, writes: tuple[Put, ...]) -> None:
    assert await store.commit(Scope(name, KEY), Commit(expect=0, applied=1, writes=writes))


async def test_a_citation_resolves_to_what_it_cited():
    found = context(row(1, "a"), row(2, "b", reply_id="r1"), row(3, "c", reply_id="unknown"), row(4, "d"))
    decision = await (await stage({Strategy.FUSED: Fixed(found)})).decide(asked())
    (reply,) = decision.events
    assert isinstance(reply, Reply)
    assert reply.cited == ("u1", "u5", "u6", "u4")
    (write,) = decision.writes
    assert Cited.from_json(write.text).utterance_ids == reply.cited


async def test_an_ask_may_bring_its_own_strategy_and_budget():
    sources = {strategy: Fixed(Context()) for strategy in Strategy}
    room = await stage(sources, budget_tokens=700)
    await room.decide(asked())
    await room.decide(asked(strategy=Strategy.TREE, budget_tokens=33))
    assert [query.budget_tokens for query in sources[Strategy.FUSED].asked] == [700]
    (query,) = sources[Strategy.TREE].asked
    assert (query.budget_tokens, query.asker, query.session, query.speakers) == (33, "Ann", 4, SPEAKERS)


async def test_the_dialogue_is_numbered_on_from_the_memory():
    said = Line(utterance_id="u8", speaker="Ben", text="hm", at=START)
    decision = await (await stage({Strategy.FUSED: Fixed(context(row(1, "a")))})).decide(asked((said,)))
    (reply,) = decision.events
    assert isinstance(reply, Reply)
    assert reply.cited == ("u1", "u8")
    assert (reply.strategy, reply.known_session) == (Strategy.FUSED, 3)


def test_an_apology_answers_the_request_without_a_text():
    (reply,) = error_reply(asked(strategy=Strategy.TREE), "broken")
    assert isinstance(reply, Reply)
    assert (reply.request_id, reply.text, reply.strategy) == ("r9", "", Strategy.TREE)
    assert reply.error == "broken"
