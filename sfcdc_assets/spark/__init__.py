"""Spark: a session of this process's own, a standing one that runs share, or one on a cluster."""
