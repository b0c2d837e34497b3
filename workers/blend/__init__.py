"""The room of the stage that blends past and present into insights, turn by turn (CREEM, section 3)."""
