"""Stage `tree`: grows a tree over the memories (MemTree)."""
