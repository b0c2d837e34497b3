"""The cold store: snapshots of idle conversations, and the way there and back."""
