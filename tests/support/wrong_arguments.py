"""Command lines that are wrong beside a running pipeline, and words of the line that says so."""

from eunoe.streams.client import MAX_TEXT_BYTES

WRONG: dict[str, tuple[list[str], str]] = {
    "ask nothing": (["ask", "c", ""], "argument 3, after 'c', is empty"),
    "ask blanks": (["ask", "c", " \t"], "argument 3"),
    "ask nobody": (["ask", "", "Hello?"], "argument 2, after 'ask', is empty"),
    "ask too much": (["ask", "c", "x" * (MAX_TEXT_BYTES + 1)], f"the limit is {MAX_TEXT_BYTES}"),
    "ask too much in umlauts": (["ask", "c", "ü" * (MAX_TEXT_BYTES // 2 + 1)], f"the limit is {MAX_TEXT_BYTES}"),
    "unknown strategy": (["ask", "c", "Hello?", "--strategy", "best"], "--strategy"),
    "negative budget": (["ask", "c", "Hello?", "--budget", "-1"], "--budget"),
    "no budget": (["ask", "c", "Hello?", "--budget", "0"], "--budget"),
    "show an unknown conversation": (["show", "nobody"], "no conversation 'nobody'"),
    "show its memories": (["show", "nobody", "--memories"], "no conversation 'nobody'"),
    "show its graph": (["show", "nobody", "--timelines"], "no conversation 'nobody'"),
    "show its tree": (["show", "nobody", "--tree"], "no conversation 'nobody'"),
    "show a memory of it": (["show", "nobody", "--history", "ab12"], "nobody"),
    "explain an unknown reply": (["explain", "nothing"], "no reply 'nothing'"),
    "state of an unknown one": (["state", "nobody"], "nobody"),
    "state of an unknown tenant": (["state", "c", "--tenant", "nobody"], "nobody"),
    "an unknown letter": (["dead-letters", "show", "abcdef"], "abcdef"),
    "retry an unknown letter": (["dead-letters", "retry", "abcdef", "--yes"], "abcdef"),
    "discard an unknown letter": (["dead-letters", "discard", "abcdef", "--yes"], "abcdef"),
    "repair an unknown one": (["repair", "nobody"], "nobody"),
    "skip what is no place": (["skip", "conversations"], "conversations"),
    "skip in an unknown topic": (["skip", "gossip/0@0", "--yes"], "no stage reads a topic 'gossip'"),
    "skip in an unknown partition": (["skip", "conversations/999@0", "--yes"], "conversations/999@0"),
    "skip what is not there yet": (["skip", "conversations/0@999999", "--yes"], "conversations/0@999999"),
}

ELSEWHERE: dict[str, str] = {
    "bench": "takes numbers only; tests/unit/test_soak.py",
    "demo": "starts servers of its own; tests/broker/test_pipeline.py",
    "diff": "tests/broker/test_compare_generations.py",
    "doctor": "tests/broker/test_doctor.py; takes no name of anything",
    "drop": "tests/broker/test_rebuild.py",
    "eval": "reads files, no servers",
    "gateway": "tests/broker/test_gateway.py; takes addresses only",
    "generations": "takes nothing",
    "import": "reads a file before it asks a server; tests/unit/test_imports.py",
    "keys": "tests/unit/test_gateway_keys.py; reads a file",
    "mcp": "asks a gateway, not the servers",
    "produce": "reads a file; tests/broker/test_pipeline.py",
    "promote": "tests/broker/test_rebuild.py",
    "rebuild": "tests/broker/test_rebuild.py",
    "reindex": "takes nothing",
    "schemas": "writes files, no servers",
    "topics": "tests/broker/test_repartition.py",
    "up": "starts servers",
    "worker": "tests/unit/test_worker_command.py",
}
"""Commands without a wrong line above, with the reason or the place of their own."""
