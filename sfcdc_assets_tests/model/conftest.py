"""Commits of the pipeline are followed on its fixtures."""

from sfcdc_assets_tests.pipeline.fixtures import make_pipeline, no_settings_but_the_tests_own

__all__ = ["make_pipeline", "no_settings_but_the_tests_own"]
