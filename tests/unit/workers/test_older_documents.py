"""State that a checkout of before 0.1.0 wrote: it is damaged, so that its conversation is held until a repair."""

import pytest

from eunoe.schemas.base import Value
from eunoe.schemas.documents import read_document
from eunoe.schemas.errors import StateDamaged
from eunoe.workers.compress.features import LineFeatures
from eunoe.workers.intake.head import Head
from eunoe.workers.tree.nodes import StoredVector, TreeNode
from eunoe.workers.update.memories import MemoryStats

OLDER = [
    (
        Head,
        '{"session":3,"is_open":true,"session_id":"s","continues":1,"lines":2,"size":40,"last_utterance_id":"u9",'
        '"last_log_time":"2026-01-01T00:00:09Z","remembered":9,"turn":5,"turn_before":3}',
    ),
    (LineFeatures, '{"embedder":"e","speakers":["Ann"],"vectors":"AAAA","worth":[0.5]}'),
    (MemoryStats, '{"memories":2,"session":1,"known_from":null,"speakers":["Ann"]}'),
    (StoredVector, '{"dense":"AACAPwAAAAA="}'),
    (TreeNode, '{"node_id":"n","parent":"root","children":["a","b"],"depth":1,"descendants":2,"text":"t"}'),
]


@pytest.mark.parametrize(("form", "text"), OLDER, ids=[form.__name__ for form, _ in OLDER])
def test_a_document_of_before_the_first_release_is_damaged(form: type[Value], text: str):
    with pytest.raises(StateDamaged, match=f"no {form.__name__}.*`eunoe repair`"):
        read_document(form, text, "default/c")
