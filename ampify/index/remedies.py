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
PLACE_HINTS: Final = {
    # By the reason for which there is no place.
    "the optimizer holds tensors that are no parameters of a model": (
        "leave this loop in float32: what is trained here is not a module's, and half of its precision is little for it"
    ),
    "the optimizer is made only after the first backward": "make the optimizer before the loop",
    "another optimizer is made here after the first backward": (
        "make all optimizers before the loop, or make this one in a statement that gives it the other's name"
    ),
    "the model it trains was not found": (
        "give the optimizer the parameters of a module that can be followed to where it is made"
    ),
    "the model gets to its device only here, in the function that trains it": (
        "move the model to its device where it is made, before its optimizer"
    ),
}
