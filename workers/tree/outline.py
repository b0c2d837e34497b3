"""An indented outline of the tree, for inspection."""

from collections.abc import Iterator, Mapping

from eunoe.workers.text.tokens import clip_chars
from eunoe.workers.tree.nodes import ROOT, TreeNode

MAX_CHARS = 90


def walk(nodes: Mapping[str, TreeNode]) -> Iterator[TreeNode]:
    """Yield every node from the root down, parents before children, children in order of arrival."""
    open_ = [ROOT]
    while open_:
        node = nodes.get(open_.pop())
        if node is not None:
            yield node
            open_ += reversed(node.children)


def outline(nodes: Mapping[str, TreeNode], max_chars: int = MAX_CHARS) -> list[str]:
    """One line per node except the root, indented by depth."""
    inner = (node for node in walk(nodes) if node.node_id != ROOT)
    return ["  " * (node.depth - 1) + label(node, max_chars) for node in inner]


def label(node: TreeNode, max_chars: int = MAX_CHARS) -> str:
    """Count of entries (or the state of a leaf), days and text of a node."""
    first, last = (None if at is None else f"{at:%Y-%m-%d}" for at in (node.first_at, node.last_at))
    days = first if first == last else f"{first} – {last}"
    kind = ("ended" if node.ended else "·") if node.is_leaf else str(node.descendants)
    text = " ".join(node.text.split())
    short = text if len(text) <= max_chars else clip_chars(text, max_chars - 1) + "…"
    return f"[{kind}] {days} {short}"
