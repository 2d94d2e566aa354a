"""deploy/, as far as it can be tried without containers."""
