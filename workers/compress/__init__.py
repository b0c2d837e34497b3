"""The room of the stage that denoises segments and makes them findable (SeCom, section 2.3)."""
