"""The pages of the emulated org, for people."""
