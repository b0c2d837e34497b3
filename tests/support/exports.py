"""Exports of other products, small: each has two sessions, and all that a reader has to leave out."""

import json
from pathlib import Path
from typing import Any

SAID = ("I moved to Lyon in March.", "My sister Eva works at the hospital in Lyon.")
DAY = 1_700_000_000.0


def message(id_: str, role: str, parts: list[Any], at: float | None, parent: str | None, **more: Any) -> dict[str, Any]:
    """A node of a chat."""
    kind = more.pop("kind", "text")
    content = {"content_type": kind, "parts": parts}
    body = {"id": id_, "author": {"role": role}, "create_time": at, "content": content, "weight": 1.0, **more}
    return {"id": id_, "message": body, "parent": parent, "children": []}


def chatgpt_chat(name: str = "chat-1", at: float = DAY) -> dict[str, Any]:
    """A chat with an abandoned branch, a hidden prompt, a tool's call, an image, and a long silence."""
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    nodes = [
        {"id": "root", "message": None, "parent": None, "children": []},
        message("sys", "system", ["You are helpful."], None, "root"),
        message("own", "user", ["About me: tall."], None, "sys", kind="user_editable_context"),
        message("old", "user", ["I moved to Nice."], at, "own"),
        message("u1", "user", [SAID[0]], at, "own"),
        message("a1", "assistant", ["search('Lyon')"], at + 1, "u1", recipient="browser"),
        message("t1", "tool", ["Lyon is a city."], at + 2, "a1"),
        message("a2", "assistant", ["Lyon is lovely."], at + 3, "t1"),
        message("u2", "user", [image, "Look at the flat."], at + 60, "a2", kind="multimodal_text"),
        message("hid", "user", ["hidden"], at + 61, "u2", metadata={"is_visually_hidden_from_conversation": True}),
        message("u3", "user", [SAID[1]], at + 7200, "hid"),
        message("a3", "assistant", [""], None, "u3"),
    ]
    return {
        "title": "Lyon", "conversation_id": name, "create_time": at, "current_node": "a3",
        "mapping": {node["id"]: node for node in nodes},
    }  # fmt: skip


def claude_message(id_: str, sender: str, parts: list[Any], at: str | None, **more: Any) -> dict[str, Any]:
    """A message of a chat of Claude; its text has what no person sees, too."""
    content = [{"type": "text", "text": part, "citations": []} if isinstance(part, str) else part for part in parts]
    text = "\n".join(part if isinstance(part, str) else HIDDEN for part in parts)
    return {
        "uuid": id_, "text": text, "content": content, "sender": sender, "created_at": at, "updated_at": at,
        "attachments": [], "files": [], **more,
    }  # fmt: skip


HIDDEN = "```\nThis block is not supported on your current device yet.\n```"


def claude_chat(name: str = "chat-1") -> dict[str, Any]:
    """A chat with a thought, a call of a tool, a pasted text, a document, an image, and a long silence."""
    thought = {"type": "thinking", "thinking": "They moved."}
    call = {"type": "tool_use", "name": "search", "input": {"q": "Lyon"}}
    result = {"type": "tool_result", "content": [{"type": "text", "text": "Lyon is a city."}]}
    pasted = {"file_name": "", "file_type": "txt", "extracted_content": "The flat has two rooms."}
    document = {"file_name": "lease.pdf", "file_type": "pdf", "extracted_content": "The lessee pays."}
    return {
        "uuid": name, "name": "Lyon", "created_at": "2023-11-14T22:13:00.123456Z", "account": {"uuid": "a"},
        "updated_at": "2023-11-15T00:13:20Z",
        "chat_messages": [
            claude_message("u1", "human", [SAID[0]], "2023-11-14T22:13:20.500000Z"),
            claude_message("a1", "assistant", [thought, "Lyon is lovely.", call, result], "2023-11-14T22:13:23Z"),
            claude_message("u2", "human", ["Look at the flat."], "2023-11-14T22:14:20Z",
                           attachments=[pasted, document], files=[{"file_name": "flat.PNG"}]),
            claude_message("a2", "assistant", [call], "2023-11-14T22:14:30Z"),
            claude_message("u3", "human", [SAID[1]], "2023-11-15T00:13:20Z"),
        ],
    }  # fmt: skip


def mem0_memories() -> dict[str, Any]:
    """What mem0's ``get_all`` answers."""
    return {
        "results": [
            {"id": "m2", "memory": SAID[1], "user_id": "ann", "created_at": "2026-01-03T08:00:00-08:00"},
            {"id": "m1", "memory": SAID[0], "user_id": "ann", "created_at": "2026-01-02T08:00:00", "metadata": None},
        ]
    }


def locomo_sample() -> dict[str, Any]:
    """A sample of two sessions."""
    turns = [{"speaker": "Ann", "dia_id": f"D{number}:1", "text": text} for number, text in enumerate(SAID, 1)]
    return {
        "sample_id": "conv-1",
        "qa": [],
        "conversation": {
            "session_1": turns[:1], "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_2": turns[1:], "session_2_date_time": "2:00 pm on 9 May, 2023",
        },
    }  # fmt: skip


def json_lines() -> str:
    """Events as clients produce them: an unnamed session that ends, and a named one that does not."""
    common = {"type": "utterance", "conversation_id": "c", "speaker": "Ann"}
    rows = [
        {**common, "utterance_id": "u1", "text": SAID[0], "at": "2024-05-01T10:00:00Z", "ask": {"request_id": "r1"}},
        {"type": "session_ended", "conversation_id": "c", "at": "2024-05-01T10:05:00Z"},
        {**common, "utterance_id": "u2", "text": SAID[1], "at": "2024-05-02T10:00:00Z", "session_id": "s2"},
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def csv_rows() -> str:
    """A table of a chat with an assistant, on two days."""
    return (
        "at,role,text\n"
        f"2024-05-01T10:00:00Z,user,{SAID[0]}\n"
        '2024-05-01T10:01:00Z,assistant,"Lyon, then."\n'
        f"2024-05-02T10:00:00Z,user,{SAID[1]}\n"
    )


def write_exports(folder: Path) -> dict[str, Path]:
    """Format → its file in a folder."""
    texts = {
        "chatgpt": json.dumps([chatgpt_chat()]),
        "claude": json.dumps([claude_chat()]),
        "mem0": json.dumps(mem0_memories()),
        "locomo": json.dumps([locomo_sample()]),
        "jsonl": json_lines(),
        "csv": csv_rows(),
    }
    for name, text in texts.items():
        (folder / f"{name}.json").write_text(text)
    return {name: folder / f"{name}.json" for name in texts}
