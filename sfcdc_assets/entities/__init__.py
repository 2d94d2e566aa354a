"""Which entities there are, what feeds each, and what waits to be done."""
