"""For tools that still look for it: all metadata is in pyproject.toml."""

from setuptools import setup

setup()
