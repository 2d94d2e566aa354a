"""The org, opened for work on a warehouse that is its copy, and the context of a run."""
