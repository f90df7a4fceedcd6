"""What a person can do where the hint of a rule does not fit one of its reasons."""

from __future__ import annotations

from typing import Final

DEVICE_HINT: Final = (
    "have a `device = torch.device(...)` and move every model to it, "
    "or give the model a name where its optimizer is made"
)
ONE_HINT: Final = (
    "have each object run its backward and step in its own methods, or keep optimizers that step together in one object"
)
GENERATOR_HINT: Final = "compute the loss in a function that returns, and let the generator call it"
MIXED_HINT: Final = "run the model without gradients in statements of its own, before those that compute the loss"
PROBABILITY_HINT: Final = (
    "give this loss its input by name, or use BCEWithLogitsLoss and leave out the sigmoid before it"
)
