"""What commands have in common: output, tables, progress, and how they end."""
