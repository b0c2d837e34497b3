"""Scores of a reply's words against the right answer; the libraries are in the extra ``eval``."""

import re
import string
from collections import Counter
from collections.abc import Sequence

from eunoe.deploy.evaluate.extras import extra

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_MARKS = str.maketrans("", "", string.punctuation)


def _words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_MARKS)).split()


def token_f1(reply: str, answer: str) -> float:
    """SQuAD's F1 of shared words, articles and punctuation left out; from 0 to 1."""
    said, wanted = Counter(_words(reply)), Counter(_words(answer))
    shared = (said & wanted).total()
    return 2 * shared / (said.total() + wanted.total()) if shared else float(said == wanted)


def rouge_l(replies: Sequence[str], answers: Sequence[str]) -> float:
    """The mean F-measure of ROUGE-L, stemmed; from 0 to 1."""
    scorer = extra("rouge_score.rouge_scorer").RougeScorer(["rougeL"], use_stemmer=True)
    found = [scorer.score(answer, reply)["rougeL"].fmeasure for reply, answer in zip(replies, answers, strict=True)]
    return sum(found) / len(found) if found else 0.0


def bleu(replies: Sequence[str], answers: Sequence[str]) -> float:
    """BLEU-4 of the whole corpus, sacrebleu's defaults; from 0 to 100."""
    return float(extra("sacrebleu").corpus_bleu(list(replies), [list(answers)]).score) if replies else 0.0


def bert_score(replies: Sequence[str], answers: Sequence[str]) -> float:
    """The mean F1 of BERTScore for English; downloads its model at first use."""
    _, _, f1 = extra("bert_score").score(list(replies), list(answers), lang="en", verbose=False)
    return float(f1.mean())
