"""A record is erased from a whole pipeline's warehouse, and stays out."""
