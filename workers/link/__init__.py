"""The room of the stage that links memories into a graph (THEANINE, section 2.1), and of its timelines (2.2)."""
