"""Two generations of one memory, side by side."""
