"""Is a worker alive, is it ready, what has it counted: judged, served, probed."""
