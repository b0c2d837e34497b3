"""Text read without a language model: terms, tokens, statements, dates, tables of English."""
