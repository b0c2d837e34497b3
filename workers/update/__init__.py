"""Stage `update`: the only writer of memories (Keep Me Updated, section 4.3)."""
