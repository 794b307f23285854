"""Machine: what a process should ask of its memory and cores before it trains or decodes."""

import ctypes
import os
import sys

import torch

# glibc's names. By default it hands every large buffer back to the system at each step, and the next
# step pays for fresh, zeroed pages again: most of a naive loop's time on a CPU.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
GIGABYTE = 2**30


def libc(name: str):
    """A function of glibc; None where the C library is another."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None


def keep_memory() -> bool:
    """Lets freed buffers be used again instead of returned; False where the C library is not glibc."""
    mallopt = libc("mallopt")
    if mallopt is None:
        return False
    mallopt(M_MMAP_THRESHOLD, GIGABYTE)
    mallopt(M_TRIM_THRESHOLD, 2 * GIGABYTE - 1)
    mallopt(M_TOP_PAD, 64 * 2**20)
    return True


def keep_kernels() -> None:
    """Keeps the matrix products compiled for some thousand shapes, of which a training meets most in every
    epoch; oneDNN's own limit is 1,024. It looks when the first product is taken, so call this before."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "8192")


def return_memory() -> None:
    """Gives back what is free now. Batches differ in shape, and without this, now and then, the holes
    between their buffers add up to gigabytes over a long training."""
    trim = libc("malloc_trim")
    if trim is not None:
        trim(0)


def use_cores(threads: int, processes: int = 1) -> None:
    """`threads`; for 0, as many as torch finds, or an equal share of the cores if others train here too."""
    if threads or processes > 1:
        torch.set_num_threads(threads or max(1, cores() // processes))


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def seed_all(seed: int) -> None:
    """For the first weights; each step then seeds its own dropout."""
    torch.manual_seed(seed)
