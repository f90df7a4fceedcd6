"""Migrates many repositories, each in a process of its own, on one machine or on the workers of a cluster."""
