"""fastembed for real, on a tiny ONNX model made here: needs the extra ``fastembed`` and the package ``onnx``."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

from eunoe.schemas.errors import Refused
from eunoe.workers.models.local.embedding import FastembedEmbedder, FastembedSettings

pytestmark = pytest.mark.filterwarnings("default")

WORDS = ["[PAD]", "[UNK]", "ann", "bought", "apples", "and", "pears", "the", "stock", "exchange", "fell"]
MODEL = "test/tiny-static"


def make_model(folder: Path) -> str:
    """A table of random rows as an ONNX graph: token ids to rows, pooled by fastembed."""
    folder.mkdir()
    table = np.random.default_rng(7).normal(size=(len(WORDS), 16)).astype(np.float32)
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "length"])
    rows = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", 16])
    gather = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    graph = helper.make_graph([gather], "tiny", [ids, mask], [rows], [numpy_helper.from_array(table, "table")])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx"
    )
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"pad_token_id": 0}')
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 64, "pad_token": "[PAD]"}')
    (folder / "special_tokens_map.json").write_text('{"pad_token": "[PAD]", "unk_token": "[UNK]"}')
    return str(folder)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> FastembedEmbedder:
    TextEmbedding.add_custom_model(
        MODEL, PoolingType.MEAN, normalization=True, sources=ModelSource(hf=MODEL), dim=16, model_file="model.onnx"
    )
    path = make_model(tmp_path_factory.mktemp("fastembed") / "tiny")
    return FastembedEmbedder(FastembedSettings(model=MODEL, path=path, threads=1))


async def test_a_real_onnx_model_gives_unit_rows(embedder: FastembedEmbedder):
    rows = await embedder.embed(["ann bought apples", "the stock exchange fell", "ann bought pears", ""])
    assert rows.shape == (4, embedder.dimensions) == (4, 16)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert rows[0] @ rows[2] > rows[0] @ rows[1]
    assert (await embedder.embed([])).shape == (0, 16)
    assert embedder.name == f"fastembed-{MODEL}"


def test_an_unknown_model_is_told():
    with pytest.raises(Refused, match="could not load no/such-model"):
        FastembedEmbedder(FastembedSettings(model="no/such-model"))
