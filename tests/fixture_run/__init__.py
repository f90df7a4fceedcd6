"""Runs the cases of `fixtures/`: the command line over copies of them, and the scripts themselves."""
