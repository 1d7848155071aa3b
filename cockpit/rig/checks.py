"""All checks of `cockpit doctor`, in the order in which they are best read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cockpit.rig import check_gpus, check_host
from cockpit.rig.check_types import Check, Examined

CHECKS: tuple[Callable[[Examined], Iterator[Check]], ...] = (
    check_gpus.driver,
    check_gpus.gpus,
    check_gpus.leftovers,
    check_gpus.engines,
    check_host.compiler,
    check_host.shared_memory,
    check_host.disk,
    check_host.homes,
    check_host.token,
    check_host.environment,
    check_host.wsl,
    check_host.open_files,
)


def run_checks(examined: Examined) -> list[Check]:
    """The lines of every check; one may have none, and one about several things has several."""
    return [line for check in CHECKS for line in check(examined)]
