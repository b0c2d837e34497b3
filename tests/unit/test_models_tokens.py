import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.workers.text.tokens import clip_tokens, count_tokens, count_words

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
"""Characters that are words of their own."""


def test_words_and_marks_count_one_each():
    assert count_tokens("Ann didn't pay $4.50!") == len(["Ann", "didn", "'", "t", "pay", "$", "4", ".", "50", "!"])
    assert count_tokens("") == count_tokens(" \n") == 0


@given(st.text(), st.integers(-1, 40))
def test_clipping_keeps_a_beginning_within_the_limit(text: str, limit: int):
    clipped = clip_tokens(text, limit)
    assert text.startswith(clipped)
    assert count_tokens(clipped) <= max(limit, 0)
    rest = re.search(rf"[{CJK}]|[^\W{CJK}]+|[^\w\s]", text[len(clipped) :])
    if rest is not None:  # the next word, which is not cut where it has several tokens, is too much
        assert count_tokens(text[: len(clipped) + rest.end()]) > max(limit, 0)


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=13))
def test_counting_plain_english_is_the_number_of_words_and_marks(text: str):
    assert count_tokens(text) == count_words(text) == len(re.findall(r"\w+|[^\w\s]", text))


SAMPLES = {
    "English": (
        "Mia: I moved to Leeds last week, and the new flat is right by the river. Tom: That sounds great! Have you"
        " unpacked all the boxes? When I moved I looked for my coffee machine for weeks. Mia: Almost all of them; the"
        " bookshelves are still missing, and my sister's birthday is next Saturday.",
        69,
    ),
    "German": (
        "Mia: Ich bin letzte Woche nach Leipzig umgezogen, und die neue Wohnung liegt direkt am Fluss. Tom: Das klingt"
        " großartig! Hast du schon alle Kisten ausgepackt? Beim letzten Umzug habe ich wochenlang meine Kaffeemaschine"
        " gesucht. Mia: Fast alle. Die Bücherregale fehlen noch, die Lieferung verzögert sich um zwei Wochen.",
        77,
    ),
    "Korean": (
        "민아: 안녕, 잘 지냈어? 나 지난주에 부산으로 이사했어. 새 집은 바다 바로 앞이라서 아침마다 산책을 해. 준호:"
        " 정말? 부럽다! 짐은 다 풀었어? 나는 지난번에 이사할 때 커피 머신을 몇 주 동안 찾았거든.",
        76,
    ),
    "Chinese": (
        "王芳：你好，最近怎么样？我上个星期搬到杭州去了，新房子就在西湖旁边，每天早上都可以去散步。李明：真的吗？太羡慕你了！"
        "东西都收拾好了吗？我上次搬家的时候，找咖啡机找了好几个星期。",
        72,
    ),
    "code": (
        "async def side_by_side(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:\n"
        "    tasks = [asyncio.ensure_future(call) for call in calls]\n    try:\n        return await"
        " asyncio.gather(*tasks)\n    except BaseException:\n        for task in tasks:\n            task.cancel()\n",
        63,
    ),
}
"""Language → a text, and its tokens by o200k_base, the tokenizer of GPT-4o."""


@pytest.mark.parametrize(("text", "tokens"), SAMPLES.values(), ids=SAMPLES)
def test_counts_are_near_those_of_a_real_tokenizer(text: str, tokens: int):
    assert abs(count_tokens(text) / tokens - 1) <= 0.15


def test_compression_counts_words_whatever_their_length():
    assert count_words("Süderstraße, Congratulations!") == 4


def test_a_text_within_the_limit_is_unchanged():
    assert clip_tokens(" two words ", 2) == " two words "
