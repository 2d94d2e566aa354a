"""Settings: from the environment and `.env` to typed values, checked once."""
