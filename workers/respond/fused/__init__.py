"""Strategy `fused`: candidates of all sources, scored together and packed within a budget."""
