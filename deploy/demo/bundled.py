"""Path of the bundled conversation."""

from pathlib import Path
from typing import Final

CONVERSATION: Final = Path(__file__).with_name("conversation.jsonl")
"""Mina and Jonas, in five sessions; their questions are beside it in ``questions.jsonl``."""
