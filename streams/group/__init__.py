"""The consumer of a stage: membership in its group, keyed dispatch, offsets.

Faust provides the membership. Its adapter is the modules `faust_…`; no other module imports Faust or mode.
"""
