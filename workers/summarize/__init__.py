"""Stage `summarize`: makes memory sentences from a session (THEANINE, section 3.1)."""
