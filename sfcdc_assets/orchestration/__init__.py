"""The graph in Dagster: the only room, beside the command line and the guarded webserver, that knows it."""
