"""LLMLingua-2 for real, on a tiny model made here: needs the extra ``llmlingua``; run by ``make test-llmlingua``."""

from pathlib import Path

import pytest
import tiktoken
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaForTokenClassification

from eunoe.schemas.errors import Refused
from eunoe.workers.models.local.compression import LLMLinguaCompressor
from eunoe.workers.text.tokens import count_tokens

pytestmark = pytest.mark.filterwarnings("default")

TEXT = "Ann: I really went to the market and bought 3 apples, but I did not see any pears there. Did you?"


def make_model(folder: Path) -> str:
    """A random one-layer XLM-RoBERTa that labels tokens, with a tokenizer of words and letters."""
    special = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    words = [(f"▁{word}", -1.0) for word in sorted({*TEXT.replace(",", "").split(), "apples"})]
    letters = [("▁", -2.0), *((chr(code), -5.0) for code in range(33, 127))]
    tokenizer = Tokenizer(models.Unigram(special + words + letters, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="<s>", sep_token="</s>", mask_token="<mask>", **names
    )
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    config = XLMRobertaConfig(vocab_size=len(wrapped), max_position_embeddings=520, num_labels=2, **shape, **ids)
    wrapped.save_pretrained(folder)
    XLMRobertaForTokenClassification(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def compressor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LLMLinguaCompressor:
    # llmlingua fetches OpenAI's vocabulary only to report how much it saved; bytes will do for that
    by_bytes = tiktoken.Encoding("bytes", pat_str=r"\S+|\s+", mergeable_ranks=BYTES, special_tokens={})
    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda name: by_bytes)
    return LLMLinguaCompressor(make_model(tmp_path / "xlm-roberta-large-tiny"))


BYTES = {bytes([value]): value for value in range(256)}


async def test_a_real_model_drops_words_and_keeps_the_tag_and_the_digits(compressor: LLMLinguaCompressor):
    (kept,) = await compressor.compress([TEXT], 0.5)
    assert kept.startswith("Ann: ")
    assert "3" in kept
    assert kept.endswith("?")
    assert set(kept.replace("?", "").split()) < set(TEXT.replace("?", "").replace(",", "").split()), "no broken words"
    assert 0.2 < count_tokens(kept) / count_tokens(TEXT) < 0.9
    assert await compressor.compress([TEXT], 0.5) == [kept]
    await compressor.aclose()


async def test_lines_stay_lines_and_short_ones_stay_whole(compressor: LLMLinguaCompressor):
    kept = await compressor.compress([f"{TEXT}\nBob: Hi", "", "Hi"], 0.5)
    assert kept[0].split("\n")[1] == "Bob: Hi"
    assert kept[1:] == ["", "Hi"]
    await compressor.aclose()


def test_a_model_that_cannot_be_loaded_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda name: None)
    with pytest.raises(Refused, match="could not load"):
        LLMLinguaCompressor(str(tmp_path / "xlm-roberta-large-missing"))
