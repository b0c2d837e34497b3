"""The contracts of eunoe: events, memories, decisions and ports. Pure data, no I/O."""
