import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.workers.text.tokens import clip_chars, clip_tokens, count_tokens, count_words, token_cuts


def test_words_and_marks_count_one_each():
    assert count_tokens("Ann didn't pay $4.50!") == len(["Ann", "didn", "'", "t", "pay", "$", "4", ".", "50", "!"])
    assert count_tokens("") == count_tokens(" \n") == 0


@given(st.text(), st.integers(-1, 40))
def test_clipping_keeps_a_beginning_within_the_limit(text: str, limit: int):
    clipped = clip_tokens(text, limit)
    assert text.startswith(clipped)
    assert count_tokens(clipped) <= max(limit, 0)
    following = next(token_cuts(text[len(clipped) :], 0), None)
    if following is not None and text[len(clipped) :].strip():
        # the next word, which is not cut where it has several tokens, is too much
        assert count_tokens(text[: len(clipped) + following[1]]) > max(limit, 0)


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=13))
def test_counting_plain_english_is_the_number_of_words_and_marks(text: str):
    assert count_tokens(text) == count_words(text) == len(re.findall(r"\w+|[^\w\s]", text))


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=60), st.integers(1, 5))
def test_plain_english_is_cut_as_it_is_before_a_word_of_another_script(text: str, limit: int):
    whole = list(token_cuts(text, limit))[:-1]
    assert whole == list(token_cuts(f"{text} 中", limit))[: len(whole)]


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
    "Hindi": (
        "मुझे मूंगफली से एलर्जी है। मेरे भाई का नाम अर्जुन है और हम जयपुर में रहते हैं। पिछले साल मैंने अपनी नौकरी छोड़ दी"
        " और एक छोटी दुकान खोली, जहाँ हम किताबें और चाय बेचते हैं।",
        51,
    ),
    "Bengali": (
        "আমার নাম প্রিয়া এবং আমি কলকাতায় থাকি। গত বছর আমি আমার চাকরি ছেড়ে দিয়ে একটি ছোট দোকান খুলেছি।",
        30,
    ),
    "Thai": (
        "ผมแพ้กุ้ง กินอาหารทะเลไม่ได้ ผมมีแมวสองตัวอยู่ที่เชียงใหม่ ปีที่แล้วผมลาออกจากงานและเปิดร้านเล็กๆ ที่เราขายหนังสือและชา",
        48,
    ),
    "Amharic": ("ባለፈው ዓመት ወደ አዲስ አበባ ተዛወርኩ ምክንያቱም እህቴ ዳቦ ቤት ከፈተች።", 86),
    "Arabic with vowels": ("مَرْحَبًا بِكُمْ فِي مَدِينَتِنَا الجَمِيلَة. انْتَقَلْتُ الشَّهْرَ المَاضِي", 42),
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


COMPOSED = (
    *("मुझे मूंगफली से एलर्जी है", "என் பெயர் பிரியா", "কলকাতায় থাকি", "مَرْحَبًا بِكُمْ"),
    *(unicodedata.normalize("NFD", text) for text in ("très énervé", "sống ở Thành phố Hồ Chí Minh")),
)
"""Words with accents or vowel signs behind their letters."""


@pytest.mark.parametrize("text", COMPOSED)
def test_a_text_is_cut_between_words_and_not_inside_them(text: str):
    for limit in range(1, 12):
        parts = [text[start:end] for start, end in token_cuts(text, limit)]
        assert [word for part in parts for word in part.split()] == text.split()
        assert text.split()[: len(clip_tokens(text, limit).split())] == clip_tokens(text, limit).split()


CHARACTERS = ("👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "ที่", "ดำ", "မြို့", "ភ្នំ", "か\u3099", "1️⃣")


@pytest.mark.parametrize("character", CHARACTERS)
def test_no_cut_falls_into_a_character(character: str):
    text = character * 5
    whole = {character * count for count in range(6)}
    for limit in range(1, 30):
        assert clip_tokens(text, limit) in whole
        assert clip_chars(text, limit) in whole
    assert {text[:end] for _, end in token_cuts(text, 2)} <= whole
    assert "".join(text[start:end] for start, end in token_cuts(text, 2)) == text


def test_an_endless_character_is_cut_all_the_same():
    text = "a" + "\u0301" * 1_000
    assert 0 < len(clip_chars(text, 500)) <= 500
    assert clip_chars("plain text", 5) == "plain"
    assert clip_chars("ab", 0) == ""
    assert clip_chars("क्षमा", 2) == ""
