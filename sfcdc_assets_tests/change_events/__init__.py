"""Tests of the change event decoding."""
