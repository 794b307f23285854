"""Disk: files that are whole or absent, and tensors that are what was saved or an error."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from heedful.errors import BadInput, Damaged

FORMAT = "1"  # of the files in a run; raised when an older heedful could misread them
PART = ".part"  # the end of a file's name while it is written


def sync(path: Path) -> None:
    """Makes sure that a file or folder has reached the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, make: Callable[[Path], Any]) -> None:
    """`make` writes a file or folder aside; then it takes its name at once, or never."""
    aside = path.with_name(f".{path.name}{PART}")
    try:
        discard(aside)
        make(aside)
        for file in [*aside.rglob("*"), aside] if aside.is_dir() else [aside]:
            sync(file)
        os.replace(aside, path)
        sync(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        try_discard(aside)


def unwritable(path: Path, error: OSError) -> BadInput:
    return BadInput(f"{path}: cannot be written: {error.strerror or error}")


def make_folder(path: Path) -> None:
    """With those above it that are missing; all of them have then reached the disk."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)


def discard(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def try_discard(path: Path) -> None:
    """Where even this is refused, there is something else to report."""
    try:
        discard(path)
    except OSError:
        return


def tidy(folder: Path) -> None:
    """Takes away what a killed process left half-written."""
    for path in [*folder.glob(f".*{PART}"), *folder.glob(".tmp*")]:
        try_discard(path)


def write_text(path: Path, text: str) -> None:
    write(path, lambda aside: aside.write_text(text, encoding="utf-8"))


def append_text(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise unwritable(path, error) from error


def digest_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(tensors: dict[str, Tensor], facts: str, made_as: str = "") -> str:
    """A fingerprint of the format, the facts and the tensors' names, shapes, types and every byte."""
    total = hashlib.sha256(f"{made_as or FORMAT}\n{facts}\n".encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.flatten().view(torch.uint8).numpy().data if tensor.numel() else b"")
    return total.hexdigest()


def save_tensors(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any] | None = None) -> None:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    told = json.dumps(facts or {})
    save_safetensors(path, tensors, {"format": FORMAT, "sha256": digest(tensors, told), "facts": told})


def save_safetensors(path: Path, tensors: dict[str, Tensor], about: dict[str, str]) -> None:
    path.touch()
    mode = path.stat().st_mode  # as the umask has it; the library would make the file private
    try:
        safetensors.torch.save_file(tensors, path, metadata=about)
    except safetensors.SafetensorError as error:  # how the library tells of a full disk
        raise OSError(None, str(error)) from error
    path.chmod(mode)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the facts saved with them; a damaged or foreign file is an error that names it."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        told = about["facts"]
        facts = dict(json.loads(told))
    except FileNotFoundError as error:
        raise Damaged(f"{path}: missing") from error
    except OSError as error:
        raise Damaged(f"{path}: {error.strerror or error}") from error
    except Exception as error:  # the library has errors of its own for each kind of damage
        raise Damaged(f"{path}: damaged, or not made by heedful ({error})") from error
    if about.get("sha256") != digest(tensors, told, about.get("format", "")):
        raise Damaged(f"{path}: damaged: its contents are not what was saved")
    if about.get("format") != FORMAT:
        raise BadInput(f"{path}: format {about.get('format')!r}; this heedful reads format {FORMAT!r}")
    if not all(t.isfinite().all() for t in tensors.values() if t.is_floating_point()):
        raise Damaged(f"{path}: holds numbers that are not finite")
    return tensors, facts
