"""The room of the stage that takes the log in: sessions open, close and are numbered here."""
