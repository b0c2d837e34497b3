"""Questions to a language model: their forms, the reading of answers, their records, counts and costs."""
