"""Cases with a gold answer for each prompt: `eunoe eval prompts`."""
