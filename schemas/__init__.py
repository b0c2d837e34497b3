"""The contracts of eunoe: events, memories, decisions and ports; data without I/O."""
