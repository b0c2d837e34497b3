"""Another embedding model is another generation: refused where it does not fit, made again, compared, promoted."""

import json
from pathlib import Path

import pytest

from eunoe.workers.stores.records.embedder_probe import PROBE_TEXT
from tests.broker.test_compare_generations import ENDED, lines
from tests.support.asking import asked_all_the_time
from tests.support.command import running
from tests.support.model_server.server import ModelServer, ServerSettings
from tests.support.pipeline import Pipeline
from tests.support.talk import talk

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(400)]

OTHER = "endpoint:words:64"
QUESTION = "Where does Ann work?"


async def test_memory_is_made_again_with_another_embedding_model(pipeline: Pipeline, tmp_path: Path):
    async with ModelServer(ServerSettings(dimensions=64)) as model:
        asking = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none", "EUNOE_LANGUAGE": "offline"}
        async with pipeline.up(**asking):
            await pipeline.produce(*lines(talk("c")))
            await pipeline.remembered(ENDED, "c")
            assert not model.embedded, "another embedder than the live generation's was asked"

            refused = await pipeline.eunoe("worker", "all", **asking, EUNOE_EMBEDDING=OTHER)
            assert refused.code == 2, refused.err
            assert "eunoe rebuild --into v2 --set embedding=" in refused.err
            assert "Traceback" not in refused.err
            estimated = await pipeline.eunoe(
                "rebuild", "--into", "v2", "--set", f"embedding={OTHER}", "--dry-run", "--json", **asking
            )
            assert estimated.json["embedded"] > 2 * ENDED, estimated.err
            # a worker asks for the length of a vector while it starts, unless it is refused before that is answered
            assert set(model.embedded) <= {PROBE_TEXT}, "memory was embedded by the worker that was refused"

            async with asked_all_the_time(pipeline, "c", QUESTION, "Ben") as old:
                made = await pipeline.eunoe(
                    "rebuild", "--into", "v2", "--set", f"embedding={OTHER}", "--json", timeout_s=200, **asking
                )
            assert old.answered
            assert (made.code, made.json["state"] if made.out else "") == (0, "built"), made.err
            assert len(set(model.embedded) - {PROBE_TEXT}) > 2 * ENDED
            questions = tmp_path / "questions.jsonl"
            questions.write_text(json.dumps({"conversation": "c", "question": QUESTION}) + "\n")
            compared = await pipeline.eunoe("diff", "v1", "v2", "--questions", str(questions), "--json", **asking)
            assert compared.code in {0, 1}, compared.err
            assert compared.json["kinds"]["segments"]["old"] > 0
            assert min(compared.json["questions"][0]["tokens"]) > 0

            async with (
                running("worker", "all", cwd=tmp_path, **pipeline.variables, **asking, EUNOE_GENERATION="v2"),
                asked_all_the_time(pipeline, "c", QUESTION, "Ben") as asked,
            ):
                await asked.more(2)
                embedded = model.stats["embeddings"]
                promoted = await pipeline.eunoe("promote", "v2", "--json", **asking)
                assert promoted.code == 0, promoted.err
                assert promoted.json == {"live": "v2", "before": "v1"}
                await asked.more(3)
                assert model.stats["embeddings"] > embedded, "questions are not embedded by the new model"
                answer = await pipeline.eunoe("ask", "c", QUESTION, "--json", **asking)
            assert answer.code == 0, answer.err
            assert answer.json["context"]
