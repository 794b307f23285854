"""Engine: how the passes of several processes become one gradient. All of it is torch's own.

DistributedDataParallel: a whole model in each process; gradients are added up while the backward pass
still goes on. Or FSDP2 (`fully_shard`): weights, gradients and the optimizer's memory are cut into as many
parts as there are processes, and a matrix is put together only while it is needed.
"""

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from heedful.config import TrainConfig
from heedful.data.batch import Batch
from heedful.train.weights import PRECISIONS, Weights


class Judged(nn.Module):
    """A model and its loss as one pass, from a batch to a number, so that an engine sees all of it."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, task: Any, batch: Batch) -> Tensor:
        return task.loss(self.model, batch)


def engine(model: nn.Module, config: TrainConfig, size: int) -> tuple[nn.Module, Weights]:
    """What gives losses, and the weights that the optimizer moves, for one process of `size`."""
    judged = Judged(model)
    if size > 1 and config.parallel == "sharded":
        shard(judged, PRECISIONS[config.precision])
        return judged, Weights(model, "float32", config.average, config.average_last)
    weights = Weights(model, config.precision, config.average, config.average_last)
    return (replicate(judged, weights) if size > 1 else judged), weights


class Replica(DistributedDataParallel):
    """Frees its group last. Whoever frees a group waits for gloo's threads; these, where another process has
    died, may wait for the interpreter. A group lets go of it meanwhile, a reducer that owns one does not."""

    def __del__(self):
        for owner in ("logger", "reducer"):
            vars(self).pop(owner, None)


def replicate(judged: Judged, weights: Weights) -> nn.Module:
    parallel = Replica(judged)
    parallel.broadcast_buffers = False  # they are constants; as an argument this warns from torch 2.13 on
    masters = {own: weights.masters[name] for name, own in weights.own.items()}
    parallel.register_comm_hook(masters if weights.separate else {}, add_up)
    return parallel


def silence(engine: nn.Module) -> AbstractContextManager[None]:
    """Passes inside keep their gradients to themselves: more are to come in this step."""
    return engine.no_sync() if isinstance(engine, DistributedDataParallel) else nullcontext()


def add_up(masters: dict[Tensor, Tensor], bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """Sums a bucket of gradients over all processes, in float32 also where the model is in bfloat16.

    There the sums go to the masters, with what these have gathered from earlier micro-batches, so that
    they are as exact as those of one process. The loss is a share of the whole already: no mean is taken.
    """
    total = bucket.buffer().float()  # the bucket itself, where it is in float32
    sizes = [grad.numel() for grad in bucket.gradients()]
    owners = [masters[own] for own in bucket.parameters()] if masters else []
    parts = [part.view_as(w) for part, w in zip(total.split(sizes), owners, strict=False)]
    for master, part in zip(owners, parts, strict=True):
        if master.grad is not None:
            part += master.grad

    def put(_: torch.futures.Future) -> Tensor:
        for master, part in zip(owners, parts, strict=True):
            master.grad = part
        return bucket.buffer()

    work = dist.all_reduce(total, async_op=True)
    assert work is not None
    return work.get_future().then(put)


def shard(judged: Judged, dtype: torch.dtype) -> None:
    """Cuts the weights, which stay in float32, among the processes; passes compute in `dtype`.

    Each linear map is put together on its own, since only these are always called as modules; what is
    left (tables of vectors, norms) is put together for the whole pass.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # takes a second

    # The warning: nothing here changes in place what a linear map has given.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view", UserWarning)
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    units = [module for module in judged.modules() if isinstance(module, nn.Linear)]
    for unit in [*units, judged]:
        sharded = fully_shard(unit, reshard_after_forward=True, mp_policy=policy)
        sharded.set_gradient_divide_factor(1.0)  # sums, not means: see add_up
        sharded.set_force_sum_reduction_for_comms(True)  # gloo can do no other
    for buffer in judged.buffers():
        if buffer.is_floating_point():
            buffer.data = buffer.to(dtype)


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor whose parts may lie in several processes, which must all ask for it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor  # pyright: ignore


def wholes(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: whole(tensor) for name, tensor in tensors.items()}


def cut_like(tensor: Tensor, own: Tensor) -> Tensor:
    """The part of a whole tensor that belongs to this process, if `own` is cut into parts and as large."""
    if not hasattr(own, "full_tensor") or own.shape != tensor.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(own.device), own.device_mesh, own.placements)  # pyright: ignore
