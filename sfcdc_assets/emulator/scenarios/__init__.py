"""Things that happen in orgs and that a subscriber has to get right: one YAML file each, and what plays them."""
