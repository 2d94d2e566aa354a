"""Polls, as values: how an object can be asked for what changed, from where on, and when it is due. Asks nothing."""
