"""Stage `compress`: denoises segments and indexes them for search (SeCom, section 2.3)."""
