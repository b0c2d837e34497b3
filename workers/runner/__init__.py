"""The one commit path of all stages: decide, commit, send, retry, measure."""
