"""The consumer of a stage: membership in its group, keyed dispatch, offsets.

Faust provides the membership. Its adapter is `faust_group` and `faust_thread`; no other module imports Faust or mode.
"""
