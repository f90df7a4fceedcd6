"""Mixed-precision training with NVIDIA apex's names, on torch alone: what scripts migrated by ampify import."""
