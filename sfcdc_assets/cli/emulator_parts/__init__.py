"""The emulated org's command, by its subcommands."""
