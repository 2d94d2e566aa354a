"""Formula fields through the pipeline, against the emulated org."""
