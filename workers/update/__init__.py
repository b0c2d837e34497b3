"""The room of the stage that writes memories, the only one that does (Keep Me Updated, section 3)."""
