"""What runs print: their own messages, warnings and errors. The event log in the UI has everything anyway."""

import dagster as dg

console_log = dg.colored_console_logger.configured(
    lambda config: config,
    config_schema={
        "log_level": dg.Field(str, default_value="INFO", description="The least severe messages that are printed."),
        "name": dg.Field(str, default_value="dagster", description="The logger's name."),
    },
)
