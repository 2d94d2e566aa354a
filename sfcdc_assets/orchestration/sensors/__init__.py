"""Sensors: one a channel, which lands what comes and asks for runs; alerts and packing."""
