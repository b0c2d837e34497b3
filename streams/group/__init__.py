"""The consumer of a stage: membership in its group, keyed dispatch, offsets."""
