"""Tables of messages as they are imported: columns, times, ids, and what is wrong where."""

from collections import Counter
from pathlib import Path

import pytest

from eunoe.deploy.datasets.imports.formats import ImportFormat, read_import
from eunoe.deploy.datasets.imports.imported import ImportTarget
from eunoe.schemas.base import write_spoken_time, write_time
from eunoe.schemas.errors import Refused

HEAD = "at,speaker,text\n"


def read(tmp_path: Path, text: str, conversation: str | None = None):
    path = tmp_path / "chat.csv"
    path.write_bytes(text.encode())
    return read_import(path, ImportFormat.CSV, ImportTarget(conversation_id=conversation, speaker="Ann"))


def said_in(found) -> list[tuple[str, str, str]]:
    return [(write_time(one.at), one.speaker, one.text) for part in found.sessions for one in part.utterances]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_rows_are_said_at_their_times_by_their_speakers(tmp_path, separator, mark):
    text = HEAD + '2026-03-01 09:30,Ben,"Hi, Ann"\r\n2026-03-01T09:29:00+01:00,Ann,"two\nlines"\r\n,,\r\n'
    found = read(tmp_path, mark + text.replace("Hi,", "Hi;") if separator == ";" else mark + text)
    assert [row[:2] for row in said_in(found)] == [("2026-03-01T08:29:00Z", "Ann"), ("2026-03-01T09:30:00Z", "Ben")]
    assert said_in(found)[0][2] == "two\nlines"


def test_what_an_assistant_said_is_a_reply(tmp_path):
    found = read(tmp_path, "at,role,text\n2026-03-01T09:30Z,user,Hi\n2026-03-01T09:31Z,Assistant,Hello\n")
    (session,) = found.sessions
    assert [(one.speaker, one.reply_id is not None) for one in session.utterances] == [("Ann", False), ("agent", True)]


def test_words_of_an_assistant_without_a_role_are_told_to_be_taken_for_a_persons(tmp_path):
    rows = "2026-03-01T09:30Z,Ann,Hi\n2026-03-01T09:31Z,Assistant,I live here\n2026-03-01T09:32Z,bot,So do I\n"
    assert read(tmp_path, HEAD + rows).unmarked == Counter({"Assistant": 1, "bot": 1})
    marked = "at,speaker,role,text\n" + rows.replace(",Assistant,", ",Assistant,assistant,").replace(
        ",bot,", ",bot,user,"
    )
    assert read(tmp_path, marked.replace(",Ann,", ",Ann,user,")).unmarked == Counter({"bot": 1})


def test_rows_may_name_their_conversation_session_and_id(tmp_path):
    text = (
        "At,Text,conversation_id,session_id,utterance_id,mood\n"
        "2026-03-01T09:30Z,one,a,s1,u1,good\n"
        "2026-03-01T12:30Z,two,a,s1,u2,\n"
        "2026-03-01T09:30Z,three,b,,u1,bad\n"
    )
    found = read(tmp_path, text)
    assert next((one.key, one.session_id, len(one.utterances)) for one in found.sessions) == ("default/a", "s1", 2)
    assert found.conversations == ("default/a", "default/b")
    assert found.left_out == Counter({"of column 'mood'": 2})
    assert read(tmp_path, HEAD + "2026-03-01T09:30Z,Ben,Hi\n", "mine").conversations == ("default/mine",)
    assert read(tmp_path, HEAD + "2026-03-01T09:30Z,Ben,Hi\n").conversations == ("default/csv",)


def test_rows_without_text_are_counted_and_change_no_id(tmp_path):
    rows = ("2026-03-01T09:30Z,Ben,Hi\n", "2026-03-01T09:31Z,Ben,\n", '2026-03-01T09:32Z,Ann," "\n', ",,\n")
    found, alone = read(tmp_path, HEAD + "".join(rows)), read(tmp_path, HEAD + rows[0])
    assert found.sessions == alone.sessions
    assert found.left_out == Counter({"without text": 2})


def test_rows_without_ids_keep_theirs_in_a_longer_file_and_the_same_row_twice_is_said_twice(tmp_path):
    rows = "2026-03-01T09:30Z,Ben,ok\n2026-03-01T09:30Z,Ben,ok\n"
    first, later = (read(tmp_path, HEAD + text).sessions for text in (rows, "2026-02-01T09:30Z,Ben,Hi\n" + rows))
    ids = [one.utterance_id for one in first[0].utterances]
    assert len(set(ids)) == 2
    assert [one.utterance_id for one in later[-1].utterances] == ids


def test_a_text_over_the_limit_of_the_library_is_read(tmp_path):
    found = read(tmp_path, HEAD + f"2026-03-01T09:30Z,Ben,{'word ' * 40_000}\n")
    assert sum(len(one.text.split()) for part in found.sessions for one in part.utterances) == 40_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,message\n", "line 1: names no column 'at' and none 'text'; the first line names the columns: at, text"),
        ("at,text,text\n", "line 1: names the column 'text' twice"),
        (HEAD, "holds nothing to import"),
        (HEAD + "2026-03-01T09:30Z,Ben,Hi\nyesterday,Ben,Hi\n", "line 3: at: no time like 2026-03-01T09:30:00Z: 'yes"),
        (HEAD + "2926-03-01T09:30Z,Ben,Hi\n", "line 2: its time 2926-03-01T09:30:00Z is over 200 years"),
        (HEAD + "2026-03-01T09:30Z,Ben\n", "line 2: text: "),
        (HEAD + "2026-03-01T09:30Z,Ben,\n", "holds nothing to import"),
        (HEAD + "2026-03-01T09:30Z,Ben,Hi, Ann\n", "line 2: has 4 values, but 3 columns"),
        (HEAD + '2026-03-01T09:30Z,Ben,"Hi\n', "line 2: not CSV: "),
        ("at,text,role\n2026-03-01T09:30Z,Hi,system\n", "line 2: role: must be user or assistant, got 'system'"),
        (HEAD + f"2026-03-01T09:30Z,{'x' * 101},Hi\n", "line 2: speaker: "),
    ],
)
def test_a_wrong_table_is_refused_where_it_is_wrong(tmp_path, text, said):
    with pytest.raises(Refused, match=r"chat\.csv") as refused:
        read(tmp_path, text)
    assert said in str(refused.value)


def test_a_table_in_another_encoding_is_told_so(tmp_path):
    path = tmp_path / "chat.csv"
    path.write_bytes((HEAD + "2026-03-01T09:30Z,Ben,café\n").encode("latin-1"))
    with pytest.raises(Refused, match="line 2: not in UTF-8; save the file in that encoding"):
        read_import(path, ImportFormat.CSV, ImportTarget())


def test_a_time_with_an_offset_keeps_it_and_gives_the_id_that_it_had(tmp_path):
    there, here = (read(tmp_path, f"{HEAD}{at},Ben,Hi\n") for at in ("2026-06-01T20:00-07:00", "2026-06-02T03:00Z"))
    (one,), (other,) = there.sessions[0].utterances, here.sessions[0].utterances
    assert (write_spoken_time(one.at), write_time(other.at)) == ("2026-06-01T20:00:00-07:00", "2026-06-02T03:00:00Z")
    assert one.utterance_id == other.utterance_id
