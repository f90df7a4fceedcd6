"""ampify rewrites PyTorch training scripts into mixed-precision ones."""

__version__ = "0.1.0"
