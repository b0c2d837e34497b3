"""The page: what is remembered, and why, in a browser. Its modules are served as they are."""
