"""The types that travel between stages: frozen, slotted, picklable, without syntax nodes."""
