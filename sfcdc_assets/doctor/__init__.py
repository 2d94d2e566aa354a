"""Checks of a set-up, before anything is spent or written: one module for each family, findings in their order."""
