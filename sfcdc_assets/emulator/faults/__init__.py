"""Faults that an operator or a test arms, a plan of them, and what a robust client does about each."""
