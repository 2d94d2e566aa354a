"""The `sfcdc` command: one module a subcommand, imported when it runs."""
