"""Names of participants are removed before embedding, in scripts without spaces and in Korean inside of words too."""

import pytest

from eunoe.workers.text.names import without_names

SPEAKERS = ("Ann Lee", "민아", "王芳", "さくら", "王")


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("Ann's boat, said Lee.", "boat, said"),
        ("Anna sails.", "Anna sails."),
        ("민아는 부산에 산다.", "부산에 산다."),
        ("어제 민아가 왔다.", "어제 왔다."),
        ("민아파트는 크다.", "민아파트는 크다."),
        ("王芳住在北京。", "住在北京。"),
        ("昨天王芳来了", "昨天 来了"),
        ("国王来了", "国王来了"),
        ("さくらは東京に住んでいる", "は東京に住んでいる"),
        ("王芳", "王芳"),
        ("", ""),
    ],
)
def test_names_are_removed_and_nothing_else(text: str, bare: str):
    assert without_names(text, SPEAKERS) == bare


def test_other_texts_are_not_touched_by_such_names():
    assert without_names("王芳住在北京", ("Ann",)) == "王芳住在北京"
