"""Stage `intake`: reads the conversation log; opens, closes and numbers sessions."""
