"""How the warehouse stands, from the tables alone."""
