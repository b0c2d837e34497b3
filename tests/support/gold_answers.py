"""Answers to the cases of `eunoe eval prompts` by their gold, for `ModelServer`: the best model there can be.

With ``worst`` the answers are well formed and wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eunoe.deploy.evaluate.prompts import inputs
from eunoe.deploy.evaluate.prompts.cases import PromptCase, read_cases
from eunoe.workers.models.questions.prompt_lines import speakers_in
from tests.support.model_server.server import ChatRequest
from tests.support.written_days import without_days

_FORGOTTEN = {
    "de": "Daran erinnere ich mich nicht.",
    "ko": "기억이 나지 않아요.",
    "zh": "我不记得了。",
}
_WRONG = "Quite another matter"
_FIELDS = {
    "starts": "segment",
    "memories": "summarize",
    "pairs": "update",
    "nodes": "tree",
    "question": "question",
    "insights": "blend",
    "text": "respond",
}
"""Field of an answer → stage."""


@dataclass
class GoldAnswers:
    """A script for `ModelServer`."""

    worst: bool = False
    cases: Sequence[PromptCase] = field(default_factory=read_cases)

    def __call__(self, question: ChatRequest) -> Any:
        """The answer to the case whose texts stand in the question."""
        stage = self._stage(question)
        shown = without_days(question.user)
        found = [case for case in self.cases if case.stage == stage and _stands_in(case, shown)]
        assert found, f"no case of {stage} for {question.user}"
        case = max(found, key=lambda one: len("".join(_texts(one))))
        return _MAKERS[stage](case, self.worst)

    def _stage(self, question: ChatRequest) -> str:
        assert question.schema is not None
        names = question.schema["properties"]
        stage = next(stage for name, stage in _FIELDS.items() if name in names)
        if stage == "update" and "relation" in str(question.schema):
            return "link"
        return stage


def _texts(case: PromptCase) -> list[str]:
    """The texts of a case that its question shows."""
    match case.stage:
        case "update" | "link":
            written = [text for pair in case.input["pairs"] for text in pair]
        case "tree":
            return [text for node in case.input["nodes"] for text in (*node.get("new", ()), *node.get("drop", ()))]
        case "respond":
            parts = [text.rpartition(" -> ")[0] or text for text in case.input.get("timeline", ())]
            written = [*parts, *case.input.get("memory", ()), *case.input.get("dialogue", ()), case.input["question"]]
        case _:
            written = [*case.input["lines"], *case.input.get("memories", ())]
    return [" ".join(inputs.line_of(text, 1).text.split()) for text in written]


def _stands_in(case: PromptCase, user: str) -> bool:
    return all(text in user for text in _texts(case))


def _first(words: str) -> str:
    return words.split("|", maxsplit=1)[0]


def _sentence(words: Sequence[str], *, worst: bool) -> str:
    return _WRONG if worst else " ".join(map(_first, words))


def _starts(case: PromptCase, worst: bool) -> Any:
    gold = inputs.SegmentGold.model_validate(case.gold)
    last = len(case.input["lines"])
    wrong = [row for row in range(2, last + 1) if all(abs(row - one) > 1 for one in (*gold.starts, *gold.also))][:1]
    return {"starts": [{"row": row, "topic": "x"} for row in (1, *(wrong if worst else gold.starts))]}


def _memories(case: PromptCase, worst: bool) -> Any:
    gold = inputs.SummaryGold.model_validate(case.gold)
    lines = inputs.lines_of(case.input["lines"])
    speakers = list(speakers_in(lines))
    if worst:
        said = [{"speaker": 1, "text": f"{_WRONG}, yesterday", "own": 1, "lines": [1]}] * 4
        return {"memories": [{**one, "text": f"{one['text']} {n}"} for n, one in enumerate(said)]}
    told = []
    for memory in gold.memories:
        speaker = memory.speaker or speakers[0]
        own = next(n for n, line in enumerate(lines, 1) if line.speaker == speaker)
        cited = memory.cites or (own,)
        text = f"{speaker} {_sentence(memory.words, worst=False)}"
        told.append({"speaker": speakers.index(speaker) + 1, "text": text, "own": cited[0], "lines": list(cited)})
    return {"memories": told}


def _operations(case: PromptCase, worst: bool) -> Any:
    gold = inputs.OperationsGold.model_validate(case.gold)
    every = ("PASS", "REPLACE", "APPEND", "DELETE", "FUSE")
    rows = []
    for n, allowed in enumerate(gold.operations, 1):
        op = next(one for one in every if (one in allowed) is not worst)
        merged = _sentence(gold.fused or ("both",), worst=worst) if op == "FUSE" else ""
        rows.append({"n": n, "why": "x", "op": op, "merged": merged})
    return {"pairs": rows}


def _relations(case: PromptCase, worst: bool) -> Any:
    gold = inputs.RelationsGold.model_validate(case.gold)
    every = ("Changed", "Cause", "Reason", "HinderedBy", "React", "Want", "SameTopic", "None")
    chosen = [next(one for one in every if (one in allowed) is not worst) for allowed in gold.relations]
    return {"pairs": [{"n": n, "why": "x", "relation": one} for n, one in enumerate(chosen, 1)]}


def _summaries(case: PromptCase, worst: bool) -> Any:
    gold = inputs.TreeGold.model_validate(case.gold)
    return {
        "nodes": [{"n": n, "text": _sentence(node.words, worst=worst) + "."} for n, node in enumerate(gold.nodes, 1)]
    }


def _question(case: PromptCase, worst: bool) -> Any:
    return {"question": _sentence(inputs.TextGold.model_validate(case.gold).words, worst=worst) + "?"}


def _insights(case: PromptCase, worst: bool) -> Any:
    gold, lines = inputs.BlendGold.model_validate(case.gold), inputs.lines_of(case.input["lines"])
    speakers = list(speakers_in(lines))
    if worst:
        last = lines[-1]
        row = {"kind": "New", "text": f"{last.speaker}: {_WRONG}", "lines": [len(lines)], "replaces": []}
        return {"insights": [{**row, "speaker": speakers.index(last.speaker) + 1}] * (gold.most != 1)}
    rows = []
    for insight in gold.insights:
        old = [inputs.memory_of(case.input["memories"][n - 1], n) for n in insight.replaces]
        word = _first(insight.words[0])[:4].casefold()
        said = next(n for n, line in enumerate(lines, 1) if word in line.text.casefold())
        speaker = old[0].speaker if old else lines[said - 1].speaker
        own = next(n for n in range(len(lines), 0, -1) if lines[n - 1].speaker == speaker)
        rows.append(
            {
                "kind": insight.kinds[0].capitalize(),
                "speaker": speakers.index(speaker) + 1,
                "text": f"{speaker} {_sentence(insight.words, worst=False)}",
                "lines": [own],
                "replaces": [f"m{number}" for number in insight.replaces],
            }
        )
    return {"insights": rows}


def _reply(case: PromptCase, worst: bool) -> Any:
    gold = inputs.ReplyGold.model_validate(case.gold)
    if worst:
        return {"notes": [], "cited": [], "text": _WRONG}
    forgotten = _FORGOTTEN.get(case.language, "I do not remember that.")
    text = forgotten if gold.abstains else _sentence(gold.words, worst=False)
    return {"notes": [], "cited": list(gold.cites), "text": text}


_MAKERS: Mapping[str, Any] = {
    "segment": _starts,
    "summarize": _memories,
    "update": _operations,
    "link": _relations,
    "tree": _summaries,
    "question": _question,
    "blend": _insights,
    "respond": _reply,
}
