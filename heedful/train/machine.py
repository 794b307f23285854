"""Machine: what a process should ask of its memory and cores before it trains or decodes."""

import ctypes
import os
import sys

import torch

# glibc's names. By default it hands every large buffer back to the system at each step, and the next
# step pays for fresh, zeroed pages again: most of a naive loop's time on a CPU.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
GIGABYTE = 2**30


def keep_memory() -> bool:
    """Lets freed buffers be used again instead of returned; False where the C library is not glibc."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    mallopt(M_MMAP_THRESHOLD, GIGABYTE)
    mallopt(M_TRIM_THRESHOLD, 2 * GIGABYTE - 1)
    mallopt(M_TOP_PAD, 64 * 2**20)
    return True


def use_cores(threads: int) -> None:
    """`threads`, or every core that this process may run on."""
    torch.set_num_threads(threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)


def seed_all(seed: int) -> None:
    """For the first weights; each step then seeds its own dropout."""
    torch.manual_seed(seed)
