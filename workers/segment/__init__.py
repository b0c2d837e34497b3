"""The room of the stage that splits a session into topic segments (SeCom, section 2.2)."""
