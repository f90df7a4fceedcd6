"""Operations that map elements to elements: scale and axpby, with a check for overflow."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from torch import Tensor

from .. import backend


class Checked(IntEnum):
    """Which inputs of `axpby` are looked at for infinities and NaNs; apex's numbers."""

    BOTH = -1
    X = 0
    Y = 1


def scale(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], factor: float | Tensor, found_inf: Tensor | None = None
) -> None:
    """`outputs[i] = inputs[i] * factor`, in float32, rounded once to the dtype of `outputs[i]`.

    `factor`: a number, or float32 of shape [] or [1] on the device. `found_inf`: float32 or int32, one element; set to
    1 if an element of `inputs` (before scaling) is infinite or NaN, else left as it is. An output may be its input.
    Bytes per element: the input's size read, the output's written.
    """
    backend.of([*inputs, *outputs]).scale(inputs, outputs, factor, found_inf)


def axpby(
    xs: Sequence[Tensor],
    ys: Sequence[Tensor],
    outputs: Sequence[Tensor],
    a: float | Tensor,
    b: float | Tensor,
    found_inf: Tensor | None = None,
    checked: Checked = Checked.BOTH,
) -> None:
    """`outputs[i] = a * xs[i] + b * ys[i]`, in float32, rounded once to the dtype of `outputs[i]`.

    `a`, `b`: numbers, or float32 of shape [] or [1] on the device. `found_inf`: as in `scale`, about the inputs that
    `checked` names. An output may be one of its inputs. Bytes per element: both inputs' sizes read, the output's
    written.
    """
    backend.of([*xs, *ys, *outputs]).axpby(xs, ys, outputs, a, b, found_inf, checked)
