"""Worker processes: their start, their supervision, their shutdown; `eunoe up`."""
