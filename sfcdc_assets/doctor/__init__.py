"""Whether a set-up would work, looked at before it is used."""
