"""Models in this process: static and ONNX embeddings, compression, and the batching of their calls."""
