"""Watches a training script from inside its process; needs the standard library and the script's own torch alone."""
