"""A small local Qdrant: the part of its REST API that eunoe uses, over the real engine (qdrant-edge)."""
