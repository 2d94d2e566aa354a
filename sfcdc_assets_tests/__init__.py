"""Tests of sfcdc_assets; the folders mirror the package."""
