"""Runs a training script before and after migration, side by side, and judges whether both train alike."""
