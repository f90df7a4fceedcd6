"""Finds the libraries that the kernels need at run time: the CUDA driver, and the NVRTC that torch brought."""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import torch

from .families import Unusable

_WINDOWS = sys.platform == "win32"


def load_driver() -> ctypes.CDLL:
    """The CUDA driver's library; raises Unusable where there is none."""
    name = "nvcuda.dll" if _WINDOWS else "libcuda.so.1"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise Unusable(f"the CUDA driver could not be loaded ({error})") from error


def load_nvrtc(major: int | None = None) -> ctypes.CDLL:
    """NVRTC of CUDA `major` (of torch's CUDA, if None; any, if torch has none); raises Unusable where none is found.

    What torch has already loaded comes first: it is in the process under its bare name.
    """
    wanted = _cuda_major() if major is None else major
    tried: list[str] = []
    for candidate in (*_bare_names(wanted), *map(str, _files(wanted))):
        tried.append(candidate)
        try:
            _load_builtins_beside(Path(candidate))
            return ctypes.CDLL(candidate)
        except OSError:
            continue
    version = "" if wanted is None else f" {wanted}"
    raise Unusable(f"NVRTC{version} was not found (tried {', '.join(tried) or 'site-packages/nvidia'})")


def _cuda_major() -> int | None:
    version = torch.version.cuda
    return int(version.split(".", maxsplit=1)[0]) if version else None


def _bare_names(major: int | None) -> tuple[str, ...]:
    if major is None:
        return ()
    if _WINDOWS:
        return (f"nvrtc64_{major}0_0.dll",)
    return (f"libnvrtc.so.{major}",)


def _files(major: int | None) -> Iterator[Path]:
    """NVRTC's files in the folders where pip puts them: the vendor's wheels, then torch's own copy; newest first."""
    of_version = "*" if major is None else str(major)
    pattern = f"nvrtc64_{of_version}*_0.dll" if _WINDOWS else f"libnvrtc*.so.{of_version}"
    torch_library = Path(torch.__file__).parent / "lib"
    site_packages = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")} | {torch_library.parents[1]}
    for folder in sorted(site_packages):
        for library in ("lib", "bin", "bin/x86_64"):
            yield from _without_builtins(folder.glob(f"nvidia/*/{library}/{pattern}"))
    yield from _without_builtins(torch_library.glob(pattern))


def _without_builtins(found: Iterator[Path]) -> list[Path]:
    return sorted((path for path in found if "builtins" not in path.name), reverse=True)


def _load_builtins_beside(library: Path) -> None:
    """NVRTC opens its builtins by a bare name and finds them only if they are in the process already."""
    if not library.is_absolute():
        return
    for builtins in sorted(library.parent.glob("*nvrtc-builtins*")):
        ctypes.CDLL(str(builtins))
