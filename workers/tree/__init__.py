"""The room of the stage that grows a tree over the memories (MemTree)."""
