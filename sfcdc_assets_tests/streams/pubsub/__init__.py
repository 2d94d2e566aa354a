"""Tests of the Pub/Sub API client."""
