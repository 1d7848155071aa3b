"""Compare saved logits: Top-1 agreement and mean KL divergence of each variant against its own reference.

PYTHON scripts/int8/compare.py FOLDER REFERENCE VARIANT…       files FOLDER/NAME.pt; JSON by variant on stdout
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch


def compare(reference: torch.Tensor, logits: torch.Tensor) -> dict[str, float | int | None]:
    """Figures of logits [positions, vocabulary] against those of the reference; divergences in nats.

    A position without a number agrees with nothing and has no divergence.
    """
    lost = ~logits.isfinite().all(-1)
    agree = (reference.argmax(-1) == logits.argmax(-1)) & ~lost
    wanted, found = reference.log_softmax(-1), logits.log_softmax(-1)
    divergence = (wanted.exp() * (wanted - found)).sum(-1)[~lost]
    return {
        "positions": len(logits),
        "lost": int(lost.sum()),
        "top1": agree.float().mean().item(),
        "kld": divergence.mean().item() if len(divergence) else None,
        "max_difference": (reference - logits)[~lost].abs().max().item() if len(divergence) else None,
    }


def main() -> None:
    """Print the figures of each variant."""
    folder, reference, *variants = sys.argv[1:]
    saved = {name: torch.load(Path(folder) / f"{name}.pt") for name in (reference, *variants)}
    print(json.dumps({name: compare(saved[reference], saved[name]) for name in variants}))


if __name__ == "__main__":
    main()
