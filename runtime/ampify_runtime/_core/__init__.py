"""What the public packages share: opt levels, casts, loss scalers, optimizer hooks. Nothing here is public."""
