"""Stage `blend`: makes insights from past memories and the present dialogue, turn by turn (CREEM, section 3)."""
