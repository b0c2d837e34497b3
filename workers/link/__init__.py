"""Stage `link`: connects memories in a graph (THEANINE, section 2.1) and reads timelines from it (2.2)."""
