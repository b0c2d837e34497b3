"""Stage `segment`: splits a session into topic segments (SeCom, section 2.2)."""
