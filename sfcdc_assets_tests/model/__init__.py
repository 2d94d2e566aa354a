"""A model of what spans processes, every state of it tried, and the real program's commits held against it."""
