"""Certificates of what tables hold."""
