"""The room of the stage that turns a session into memory sentences (THEANINE, section 3.1)."""
