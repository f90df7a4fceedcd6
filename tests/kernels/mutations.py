"""Bugs to plant in the kernels, and the small trainings that must tell each from the right ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from ampify_runtime.kernels import operations
from ampify_runtime.kernels.driver import DriverError

from tests.kernels.emulation import BACKWARD, FORWARD, SANITIZED, SHUFFLED, Emulated, emulated
from tests.kernels.test_layers import FLOAT, HALF, test_layer_norm
from tests.kernels.test_updates import SHIFTS, STEPS, _train
from tests.kernels.updates import TYPES, UPDATES, Types

SIZES = (1, 7, 8, 2049)
BFLOATS = Types(torch.bfloat16, torch.float32, torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class Mutation:
    """A bug: the file, what stands there and what is put instead, and the check that must fail with it."""

    name: str
    file: str
    old: str
    new: str
    check: Callable[[Emulated], None]
    sanitized: bool = False


def adam(found: Emulated) -> None:
    _train(UPDATES[0], UPDATES[0].modes[0], TYPES[0], sizes=SIZES, steps=STEPS[:4])


def adam_with_bfloat16(found: Emulated) -> None:
    _train(UPDATES[0], UPDATES[0].modes[0], BFLOATS, sizes=SIZES, steps=STEPS[:1])


def adam_off_alignment(found: Emulated) -> None:
    for shifts in SHIFTS.values():
        _train(UPDATES[0], UPDATES[0].modes[0], TYPES[0], sizes=(40, 300), shifts=shifts, steps=STEPS[:1])


def adam_of_several_blocks(found: Emulated) -> None:
    _train(UPDATES[0], UPDATES[0].modes[0], TYPES[0], sizes=(16389, 5), steps=STEPS[:1])


def sgd(found: Emulated) -> None:
    for mode in UPDATES[1].modes:
        _train(UPDATES[1], mode, TYPES[0], sizes=SIZES)


def novograd(found: Emulated) -> None:
    for mode in UPDATES[4].modes:
        _train(UPDATES[4], mode, TYPES[0], sizes=SIZES)


def lamb(found: Emulated) -> None:
    for order in (FORWARD, BACKWARD):
        found.run_threads(order)
        _train(UPDATES[5], UPDATES[5].modes[0], TYPES[0], sizes=(16389, 7), steps=STEPS[2:3])
    found.run_threads(FORWARD)


def norms(found: Emulated) -> None:
    """A sum must come out right whatever the order of threads."""
    tensor = torch.arange(1.0, 3001.0)
    for order in (FORWARD, BACKWARD, SHUFFLED):
        found.run_threads(order)
        assert abs(float(operations.l2norm([tensor]).total) / float(tensor.double().norm()) - 1.0) < 1e-5
    found.run_threads(FORWARD)


def layers(found: Emulated) -> None:
    for order in (FORWARD, BACKWARD, SHUFFLED):
        found.run_threads(order)
        test_layer_norm((3, 264), (HALF, FLOAT, FLOAT), "both")
    found.run_threads(FORWARD)


def axpby(found: Emulated) -> None:
    output = torch.empty(5)
    operations.axpby([torch.ones(5)], [torch.full((5,), 2.0)], [output], 1.0, 10.0)
    assert output.tolist() == [21.0] * 5


MUTATIONS = (
    Mutation(
        "no barrier after the warps' sums",
        "sums.cuh",
        "= value;\n  __syncthreads();\n  value = (int)",
        "= value;\n  value = (int)",
        norms,
    ),
    Mutation(
        "no barrier before the next sum", "sums.cuh", "  __syncthreads();\n  if (lane == 0)", "  if (lane == 0)", lamb
    ),
    Mutation(
        "a barrier that some threads pass by",
        "sums.cuh",
        "  __syncthreads();\n  if (lane == 0)",
        "  if (warp < 3) __syncthreads();\n  if (lane == 0)",
        norms,
    ),
    Mutation("a shuffle of half a warp", "sums.cuh", "int offset = 16;", "int offset = 8;", norms),
    Mutation("a shuffle left out", "sums.cuh", "offset /= 2)", "offset /= 4)", norms),
    Mutation("the first warp alone", "sums.cuh", "of_warp[threadIdx.x] : neutral", "of_warp[0] : neutral", norms),
    Mutation(
        "no rest after the vectors",
        "lists.cuh",
        "for (int at = rest; at < n;",
        "for (int at = rest; at < vectors;",
        adam,
    ),
    Mutation("an element short", "lists.cuh", "for (int at = rest; at < n;", "for (int at = rest; at < n - 1;", adam),
    Mutation("an element too far", "lists.cuh", "if (at >= n) break;", "if (at > n) break;", adam_off_alignment),
    Mutation(
        "vectors at any address",
        "lists.cuh",
        "aligned(lists) ? n / kVector : 0",
        "n / kVector",
        adam_off_alignment,
        sanitized=True,
    ),
    Mutation(
        "the last list's address not looked at",
        "lists.cuh",
        "L::size ? (u64)lists[i] : 0",
        "L::size && i < count - 1 ? (u64)lists[i] : 0",
        adam_off_alignment,
        sanitized=True,
    ),
    Mutation(
        "the next tensor's block",
        "table.cuh",
        "table.first_block[middle] <= blockIdx.x",
        "table.first_block[middle] <= blockIdx.x + 1",
        adam,
    ),
    Mutation(
        "the first chunk each time", "table.cuh", "+ start * L::size", "+ 0 * start * L::size", adam_of_several_blocks
    ),
    Mutation(
        "a chunk beyond the tensor's end",
        "table.cuh",
        "left < kChunk ? (int)left : kChunk",
        "kChunk",
        adam_of_several_blocks,
    ),
    Mutation("an overflow that does not skip", "adam.cu", "if (now.skip != 0.f) return;", "", adam),
    Mutation("an overflow that is not seen", "grad_stats.cu", "if (!finite && found_inf) *found_inf = 1.f;", "", adam),
    Mutation(
        "NaN taken for finite",
        "elements.cuh",
        "(__float_as_uint(value) & 0x7f800000u) != 0x7f800000u",
        "(__float_as_uint(value) & 0x7fffffffu) != 0x7f800000u",
        adam,
    ),
    Mutation(
        "bfloat16 cut off",
        "elements.cuh",
        "(bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16",
        "bits >> 16",
        adam_with_bfloat16,
    ),
    Mutation("gradients not unscaled", "adam.cu", "x[0] * now.grad_factor", "x[0] * now.clip", adam),
    Mutation("no clip", "step_prep.cu", "state->clip = (float)clip;", "clip = 1.; state->clip = 1.f;", adam),
    Mutation("no bias correction", "adam.cu", "1.f / now.bias_correction1", "1.f", adam),
    Mutation("decay twice", "adam.cu", "(decoupled ? 0.f : decay * p)", "decay * p", adam),
    Mutation(
        "the model's copy from before",
        "adam.cu",
        "x[1] = x[4] = p - now.lr * u;",
        "x[4] = p; x[1] = p - now.lr * u;",
        adam,
    ),
    Mutation("a skipped step counted", "step_prep.cu", "*step_at += !skip", "*step_at += 1", adam),
    Mutation("a scale that stays up", "step_prep.cu", "*scale = (float)(*scale * backoff);", "", adam),
    Mutation("a first run that forgets", "sgd.cu", "first ? g : momentum", "false ? g : momentum", sgd),
    Mutation(
        "nesterov without the gradient", "sgd.cu", "nesterov ? g + momentum * b : b", "nesterov ? momentum * b : b", sgd
    ),
    Mutation("norms of another tensor", "novograd.cu", "norms[chunk.index]", "norms[0]", novograd),
    Mutation("norms blended though skipped", "novograd.cu", "i >= count || state->skip != 0.f", "i >= count", novograd),
    Mutation("the ratio upside down", "lamb.cu", "of_params / of_updates", "of_updates / of_params", lamb),
    Mutation(
        "the first block's norm alone",
        "lamb.cu",
        "b < spans.end_of(blockIdx.x); b += kThreads",
        "b < spans.first_block[blockIdx.x] + 1; b += kThreads",
        lamb,
    ),
    Mutation("factors exchanged", "axpby.cu", "of_x * x[0] + of_y * x[1]", "of_y * x[0] + of_x * x[1]", axpby),
    Mutation(
        "a mean that is not taken away",
        "row_norm.cu",
        "const float y = (x[0] - mean) * rstd;",
        "const float y = x[0] * rstd;",
        layers,
    ),
    Mutation(
        "a strip of rows left out", "row_norm.cu", "strip < strips; ++strip", "strip < strips - 1; ++strip", layers
    ),
)


def notices(folder: Path, mutation: Mutation, *, planted: bool) -> bool:
    """Whether the mutation's check fails, with the bug planted or without; raises ValueError if the bug does not compile."""
    edits = ((mutation.file, mutation.old, mutation.new),) if planted else ()
    found = emulated(folder, edits=edits, flags=SANITIZED if mutation.sanitized else ("-O1",))
    try:
        with found.in_place():
            mutation.check(found)
    except (AssertionError, DriverError):
        return True
    finally:
        if found.engine.failures:
            raise ValueError(f"{mutation.name}: {found.engine.failures}")
    return False
