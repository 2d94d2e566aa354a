"""Large text fields arrive as unified diffs; here they become text again, proven by their SHA-256."""

from sfcdc_assets.text_diff.errors import TextDiffError
from sfcdc_assets.text_diff.reconstruct import reconstruct_text

__all__ = ["TextDiffError", "reconstruct_text"]
