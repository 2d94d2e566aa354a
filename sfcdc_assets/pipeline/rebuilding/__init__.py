"""Rebuilding: an entity's tables built again beside the present ones, then put in their place."""
