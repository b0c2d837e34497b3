"""The stages in one process: what rebuild and repair derive, compared by digest."""
