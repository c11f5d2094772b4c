"""Prints what an image's Python has for training as `name=value` lines, for the scan of containers.

Each package is checked on its own, so that a broken one does not hide the others. A value that begins with `!` is the
reason why an installed package does not work. The standard library only.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import platform


def reason(problem: object) -> str:
    return "!" + (" ".join(str(problem).split()) or type(problem).__name__)[:200]


def package(module: str, distribution: str = "") -> str:
    """The version of an importable package; empty if it is not installed."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as problem:
        # The package itself is missing, not one that it needs.
        missing = problem.name or ""
        return "" if module == missing or module.startswith(missing + ".") else reason(problem)
    except Exception as problem:  # a package that cannot be imported may raise anything
        return reason(problem)
    version = getattr(found, "__version__", "")
    if not version:
        try:
            version = importlib.metadata.version(distribution or module)
        except importlib.metadata.PackageNotFoundError:
            version = "present"
    return str(version)


def nccl() -> str:
    """The version of the NCCL that PyTorch has loaded, or that the loader finds."""
    try:
        library = ctypes.CDLL("libnccl.so.2")
    except OSError as problem:
        try:
            import torch

            return ".".join(str(part) for part in torch.cuda.nccl.version())
        except Exception:  # PyTorch is missing or broken, which its own line reports
            return reason(problem)
    code = ctypes.c_int()
    if library.ncclGetVersion(ctypes.byref(code)):
        return "!ncclGetVersion failed"
    # Since 2.9 the minor number has two digits: 2804 is 2.8.4, 21805 is 2.18.5.
    base = 1000 if code.value < 10000 else 10000
    return f"{code.value // base}.{code.value % base // 100}.{code.value % 100}"


def main() -> None:
    found = {"python": platform.python_version(), "torch": package("torch")}
    if found["torch"] and not found["torch"].startswith("!"):
        try:
            import torch

            found["cuda"] = torch.version.cuda or ""
            found["gpus"] = str(torch.cuda.device_count()) if torch.cuda.is_available() else "0"
        except Exception as problem:  # the CUDA driver may raise anything
            found["gpus"] = reason(problem)
    found["nccl"] = nccl()
    found["megatron"] = package("megatron.core", "megatron-core")
    found["deepspeed"] = package("deepspeed")
    for name, value in found.items():
        print(f"{name}={value}")


if __name__ == "__main__":
    main()
