"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import settings

# Machines under load are slow, not wrong; a failing example prints how to run it again.
settings.register_profile("suite", deadline=None, print_blob=True)
settings.load_profile("suite")
