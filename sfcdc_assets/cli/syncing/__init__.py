"""What `sync`, `verify` and `demo` show of their work."""
