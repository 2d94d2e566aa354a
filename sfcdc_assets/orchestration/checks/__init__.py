"""Asset checks: one module each."""
