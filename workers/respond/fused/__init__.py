"""The strategy `fused`: candidates of all sources, scored together and packed under a budget."""
