"""Stage `summarize`: makes memory sentences from a session (THEANINE, section 2.1; Keep Me Updated, section 4.2)."""
