"""Findings about a whole plan: engine, GPUs, port, context, exposure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address

from cockpit.rules import capability, files, flags, machine, parallel, spread, weights
from cockpit.rules.context import Context
from cockpit.rules.finding import Finding
from cockpit.rules.host import HOST_RULES
from cockpit.rules.overlays import AUTOROUND_INT8, needs_int8_overlay, overlay_finding, overlay_state, unchecked
from cockpit.rules.toggles import toggle_state


def is_loopback(host: object) -> bool:
    """Whether only this machine reaches a server that listens there; an unknown name may be anything."""
    if host == "localhost":
        return True
    try:
        return ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _engine(ctx: Context) -> Iterator[Finding]:
    if ctx.engine is None:
        yield Finding(
            rule="engine-missing",
            # A described rig is another machine: which vLLM it has is not known here.
            severity="note" if ctx.rig.described else "block",
            subject="engine",
            message=ctx.engine_problem or f"no vLLM for {ctx.slug.platform} was found",
            fix=""
            if ctx.rig.described
            else f"`cockpit engines install {'cpu' if ctx.slug.platform == 'cpu' else 'VERSION'}` makes one.",
            level="usage",
        )


def _gpus(ctx: Context) -> Iterator[Finding]:
    if ctx.slug.platform == "cpu":
        return
    wanted = ctx.gpu_indices
    have = {gpu.index for gpu in ctx.rig.gpus}
    parallel = ctx.values.get("tensor_parallel", 1)
    if not have:
        yield Finding(
            rule="gpu-missing",
            severity="block",
            subject="gpus",
            message=ctx.rig.gpu_problem or "this machine has no NVIDIA GPU",
            fix="Serve it on a machine with an NVIDIA GPU and driver; `cpu/tiny-qwen3` runs without one.",
            level="rig",
        )
    elif missing := [index for index in wanted if index not in have]:
        yield Finding(
            rule="gpu-index",
            severity="block",
            subject="gpus",
            message=f"needs {len(wanted)} GPUs ({', '.join(map(str, wanted))}), "
            f"this rig has {len(have)}: no GPU {', '.join(map(str, missing))}",
            fix="Set gpus to indices that exist.",
            level="rig",
        )
    if parallel > len(wanted):
        yield Finding(
            rule="tensor-parallel-gpus",
            severity="block",
            subject="tensor_parallel",
            message=f"tensor parallel {parallel} needs {parallel} GPUs, the plan has {len(wanted)}",
            fix=f"Set tensor_parallel={max(1, len(wanted))}, or name more GPUs.",
            level="usage",
        )


def _port(ctx: Context) -> Iterator[Finding]:
    if ctx.address_problem is not None:
        yield Finding(
            rule="address",
            severity="block",
            subject="host",
            message=ctx.address_problem,
            fix="Use an address of this machine and a port from 1024 up.",
            level="usage",
        )
    if ctx.port_owner is not None:
        yield Finding(
            rule="port-taken",
            severity="block",
            subject="port",
            message=f"port {ctx.values.get('port')} is taken by {ctx.port_owner}",
            fix="Set another port, or leave it out to take the first free one from 8000.",
            level="usage",
        )


def _exposure(ctx: Context) -> Iterator[Finding]:
    host = ctx.values.get("host")
    if not is_loopback(host) and not ctx.api_key_set:
        yield Finding(
            rule="exposed-without-key",
            severity="warn",
            subject="host",
            message=f"{host} can be reached from other machines, and the server will ask for no key",
            fix="Export VLLM_API_KEY first (or keep a key in the file api-key beside config.yaml), or use 127.0.0.1.",
        )


def _blocked_choices(ctx: Context) -> Iterator[Finding]:
    """A toggle that the user set although it is blocked; harmless ways to say off are let through."""
    for toggle in sorted(ctx.chosen):
        state = toggle_state(toggle, ctx)
        harmless = ctx.values.get(toggle) in ("off", None, (), 0)
        if state.state == "blocked" and not harmless:
            yield Finding(
                rule=f"toggle-{toggle.replace('_', '-')}",
                severity="block",
                subject=toggle,
                message=f"{toggle} is blocked: {state.reason}",
                fix=state.fix or "",
                level=state.level,
            )


def _int8(ctx: Context) -> Iterator[Finding]:
    state = toggle_state("int8", ctx)
    if ctx.values.get("int8") != "on" or (state.state == "blocked" and state.level == "checkpoint"):
        return
    if ctx.values.get("enforce_eager") == "on":
        yield Finding(
            rule="int8-eager",
            severity="warn",
            subject="int8",
            message="without CUDA graphs int8 activations slow decode down (measured 0.46x on an H200)",
            fix="Set enforce_eager=off.",
        )
    overlay = overlay_state(ctx, AUTOROUND_INT8)
    if overlay is not None and overlay.state == "available":
        yield overlay_finding(ctx, AUTOROUND_INT8, "int8", "int8-overlay", _int8_fault(ctx))
        return
    if overlay is not None and overlay.state == "needless":
        yield Finding(
            rule="int8-by-itself",
            severity="note",
            subject="int8",
            message=f"{overlay.reason}, without the overlay; no line of its log proves it",
            fix="Measure the prefill with it off and on.",
        )
        return
    message, fix = _int8_fault(ctx), "Use a vLLM that carries both fixes."
    if overlay is None and needs_int8_overlay(ctx):
        message, fix = unchecked(ctx, AUTOROUND_INT8, message)
    yield Finding(
        rule="int8-stock-engine",
        severity="warn",
        subject="int8",
        message=f"{message}; int8 counts as requested, not as proven active",
        fix=fix,
        level="rig",
    )


def _int8_fault(ctx: Context) -> str:
    """What is wrong with int8 on AutoRound weights in this vLLM, as far as it is known."""
    if ctx.engine is not None and ctx.engine.autoround_int8:
        return "stock vLLM up to 0.33 reads negative scales wrongly (vllm#48905)"
    return (
        "stock vLLM up to 0.33 drops the switch on AutoRound weights (vllm#48904) and reads negative scales wrongly "
        "(vllm#48905)"
    )


def _int8_default_off(ctx: Context) -> Iterator[Finding]:
    if ctx.slug.int8 == "on" and ctx.values.get("int8") == "off" and "int8" not in ctx.chosen:
        state = toggle_state("int8", ctx)
        yield Finding(
            rule="int8-default-off",
            severity="note",
            subject="int8",
            message=f"the slug turns int8 on, but it stays off here: {state.reason}",
        )


RULES: tuple[Callable[[Context], Iterator[Finding]], ...] = (
    _engine,
    _gpus,
    _port,
    _exposure,
    _blocked_choices,
    _int8,
    _int8_default_off,
    *weights.RULES,
    *capability.RULES,
    *parallel.RULES,
    *spread.RULES,
    *files.RULES,
    *flags.RULES,
    *machine.RULES,
    *HOST_RULES,
)


def plan_findings(ctx: Context) -> tuple[Finding, ...]:
    """Every finding about the plan, blocks first."""
    return blocks_first([finding for rule in RULES for finding in rule(ctx)])


def blocks_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sorted by severity, else in the order given."""
    order = {"block": 0, "warn": 1, "note": 2}
    return tuple(sorted(findings, key=lambda finding: order[finding.severity]))


def refusals(findings: tuple[Finding, ...], force: bool = False) -> tuple[Finding, ...]:
    """The findings that stop the plan; ``force`` passes those that only this rig raises."""
    return tuple(
        finding for finding in findings if finding.severity == "block" and not (force and finding.level == "rig")
    )
