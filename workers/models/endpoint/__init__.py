"""OpenAI-compatible endpoints: their calls, refusals, retries, and what is learned of them."""
