"""The machine's own speed at this moment: bfloat16 matrix products, as large as they run best."""

import time


def rate_of_products(threads: int, size: int = 2048, times: int = 3) -> float:
    """Operations per second, the best of a few."""
    import torch

    torch.set_num_threads(threads)
    left = torch.ones(size, size, dtype=torch.bfloat16)
    out = torch.empty_like(left)
    best = float("inf")
    for _ in range(times + 1):
        started = time.perf_counter()
        torch.mm(left, left, out=out)
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best
