"""The one seam that the screen and the verbs use: catalog, rig, engines, plans, instances."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from cockpit import paths
from cockpit.catalog.load import Entry
from cockpit.catalog.slug import Platform, Slug
from cockpit.checkpoint.inspect import inspect
from cockpit.config import Config
from cockpit.errors import CockpitError
from cockpit.fleet import Fleet, InstanceView
from cockpit.launch.best import Candidate, judged, ranked
from cockpit.launch.flag_facts import asked_for_flags
from cockpit.launch.forecast import planned
from cockpit.launch.inspection import Inspection, inspection
from cockpit.launch.named_files import missing_files
from cockpit.launch.new_slug import propose, save
from cockpit.launch.plan import Address, Facts, context_for, make_plan, toggle_states
from cockpit.launch.slug_fit import SlugFit, slug_fit
from cockpit.launch.types import LaunchPlan
from cockpit.redact import is_secret
from cockpit.rig.engines import choose_engine, command_of, find_engines, probe_engine
from cockpit.rig.host import port_is_free, port_owner
from cockpit.rig.rig import read_rig
from cockpit.rig.types import Engine, EngineProblem, Rig
from cockpit.rules.finding import Finding, ToggleState, describe
from cockpit.rules.plan_rules import blocks_first, refusals
from cockpit.shelf import Shelf
from cockpit.slug_checkpoints import SlugCheckpoints, measured_boots
from cockpit.supervisor import store
from cockpit.supervisor.again import chosen_of, with_env
from cockpit.supervisor.diagnose.types import Fix
from cockpit.supervisor.ready import state_of
from cockpit.supervisor.record import InstanceRecord
from cockpit.supervisor.spawn import Running, start
from cockpit.supervisor.stop import stop
from cockpit.this_host import ThisHost, address_again, promised_to

__all__ = ["Inspection", "InstanceView", "Session", "describe", "refuse_if_blocked"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Every toggle's state and value of one slug on this rig, by id, and what stands against its plan."""

    slug: str
    toggles: dict[str, ToggleState]
    values: dict[str, Any]
    findings: tuple[Finding, ...]


class Session(Shelf, SlugCheckpoints, Fleet):
    """Facts are read once, when first needed, and kept; ``refresh`` forgets them."""

    def __init__(
        self,
        config: Config | None = None,
        environ: Mapping[str, str] | None = None,
        described_rig: Rig | None = None,
    ) -> None:
        Shelf.__init__(self, config)
        SlugCheckpoints.__init__(self, os.environ if environ is None else environ)
        Fleet.__init__(self)
        self._described_rig = described_rig

    @cached_property
    def rig(self) -> Rig:
        """This machine, or the one that a rig file describes."""
        return read_rig() if self._described_rig is None else self._described_rig

    @cached_property
    def _found_engines(self) -> tuple[list[Engine], list[EngineProblem]]:
        return find_engines(self.config.engines)

    @property
    def engines(self) -> tuple[Engine, ...]:
        """Usable vLLMs, preferred first."""
        return tuple(self._found_engines[0])

    @property
    def engine_problems(self) -> tuple[EngineProblem, ...]:
        """Places where a vLLM was expected and none can be used."""
        return tuple(self._found_engines[1])

    def refresh(self) -> None:
        """Forget the rig, the engines, the catalog and the checkpoints, so that they are read again."""
        self.forget_checkpoints()
        for name in ("catalog", "rig", "_found_engines"):
            self.__dict__.pop(name, None)

    def look_at_rig_again(self) -> None:
        """Forget the rig alone: what is free of its memory changes with every server."""
        self.__dict__.pop("rig", None)

    def engine_for(self, platform: Platform, wanted: str | None = None) -> Engine:
        """The vLLM that serves this platform; ``wanted`` is an id or a path.

        Raises CockpitError when there is none, or the one named is not a vLLM.
        """
        if wanted is not None and all(wanted not in (engine.id, engine.path) for engine in self.engines):
            place = Path(wanted).expanduser().absolute()
            command = command_of(place)
            if command is not None:
                return choose_engine([probe_engine(command, wanted)], platform, wanted)
            if place.exists():
                fix = "Name a vllm command, or the virtual environment that it is installed in."
                raise CockpitError(f"{wanted} has no vllm command in it", fix=fix)
        return choose_engine(self.engines, platform, wanted)

    def this_host(self) -> ThisHost:
        """What is the same for every slug: hand it to all of one round, so that it is read once."""
        return ThisHost(self.environ, self.config.host, described=self._described_rig is not None)

    def facts(self, entry: Entry, wanted_engine: str | None = None, host: ThisHost | None = None) -> Facts:
        """Everything that planning for one slug reads from the outside; of the host what it knows already.

        Without an engine the facts say why; with one named that is unusable, raises CockpitError.
        """
        engine, problem = None, None
        try:
            engine = self.engine_for(entry.slug.platform, wanted_engine)
        except CockpitError as error:
            if wanted_engine is not None:
                raise
            problem = error.title if not error.detail else f"{error.title}: {error.detail}"
        answer = self.checkpoint_of(entry)
        host = host or self.this_host()
        declared = None if answer.checkpoint is not None else self.declared(entry)
        learned = measured_boots(answer.checkpoint or declared, entry)
        return Facts(
            rig=self.rig,
            checkpoint=answer.checkpoint,
            checkpoint_problem=answer.problem,
            declared=declared,
            boots=learned.boots,
            boots_problem=learned.problem,
            host=host.facts,
            missing_files=() if host.described else missing_files(entry.slug),
            gpu_holders=host.gpu_holders if entry.slug.platform == "cuda" else {},
            engine=engine,
            flags=None if engine is None else host.flags(engine),
            engine_problem=problem,
            environ=self.environ,
            api_key=host.api_key,
            readable_secrets=() if host.described else _readable_secrets(entry),
            free_port=host.free_port,
            default_host=self.config.host,
            cwd=str(Path.home()),
        )

    def fit(self, entry: Entry, host: ThisHost | None = None) -> SlugFit:
        """Whether the slug fits this rig as it is written."""
        return slug_fit(entry.slug, {}, self.facts(entry, host=host))

    def judge(self, entry: Entry, host: ThisHost | None = None) -> Candidate:
        """The same with its rank among others of its model, at the slug's own context."""
        return judged(entry.slug, entry.slug.max_model_len, self.facts(entry, host=host))

    def best(self, words: str, max_model_len: int | None = None) -> tuple[int, tuple[Candidate, ...]]:
        """Slugs that match, the best that fits first; and the context they were compared at, the longest by default.

        Raises CockpitError when none matches.
        """
        entries = self.catalog.matching(words)
        if not entries:
            raise CockpitError(f"no slug matches {words[:80]!r}", fix=self.catalog.meant(words))
        length = max_model_len or max(entry.slug.max_model_len for entry in entries)
        host = self.this_host()
        return length, ranked(judged(entry.slug, length, self.facts(entry, host=host)) for entry in entries)

    def plan(self, name: str, chosen: Mapping[str, Any], wanted_engine: str | None = None) -> LaunchPlan:
        """The exact command for the slug of that name or alias. Raises CockpitError for an unknown one."""
        entry = self.catalog.get(name)
        return self.plan_entry(entry, chosen, self.facts(entry, wanted_engine))

    def plan_entry(self, entry: Entry, chosen: Mapping[str, Any], facts: Facts) -> LaunchPlan:
        """The exact command, from facts gathered before; asks the host only about a port that was chosen."""
        return make_plan(entry, chosen, facts, self._address(chosen, facts))

    def check(self, name: str, chosen: Mapping[str, Any], wanted_engine: str | None = None) -> Check:
        """Every toggle's state and every finding for the slug of that name or alias.

        Asks the engine for its flags when they are not remembered, which takes 10 s or more, once. Raises
        CockpitError for an unknown slug.
        """
        entry = self.catalog.get(name)
        facts, silent = asked_for_flags(self.facts(entry, wanted_engine))
        ctx = context_for(entry.slug, chosen, facts)
        plan = self.plan_entry(entry, chosen, facts)
        return Check(
            slug=entry.slug.name,
            toggles=toggle_states(ctx),
            values=plan.values,
            findings=blocks_first((*plan.findings, *silent)),
        )

    def start(self, plan: LaunchPlan, force: bool = False) -> Running:
        """Start the server of a plan; it outlives this process.

        Raises CockpitError with every reason when the plan is refused or the command cannot be run, and for any plan
        of a described rig.
        """
        if self._described_rig is not None:
            raise CockpitError(
                "nothing is started on a rig that is only described",
                fix="Open cockpit without --rig for this machine.",
            )
        refuse_if_blocked(plan, force)
        self._bury(plan.slug)
        running = start(plan, forecast=planned(plan))
        self._started[running.record.name] = running
        return running

    @staticmethod
    def _bury(slug: str) -> None:
        """Clear away dead instances of a slug that is started again, with whatever they left behind."""
        for record in store.load_all()[0]:
            if record.slug == slug and state_of(record) == "dead":
                stop(record)

    def plan_again(self, record: InstanceRecord, fix: Fix | None = None) -> LaunchPlan:
        """The command for a dead instance's slug with the values that it had, and a fix of its diagnosis.

        Keeps its engine, and its address where nobody else has it or was promised it. Raises CockpitError when the
        slug or the engine is gone.
        """
        entry = self.catalog.get(record.slug)
        self.look_at_rig_again()
        facts = self.facts(entry, record.engine or None)
        changed, env = ({}, {}) if fix is None else (fix.set, fix.env)
        address = address_again(record, changed, self.config.host)
        chosen = {**chosen_of(record, entry.slug), **changed, **address}
        return with_env(self.plan_entry(entry, chosen, facts), {**record.extra_env, **env}, self.environ)

    def start_entry(self, entry: Entry, chosen: Mapping[str, Any]) -> InstanceRecord:
        """Plan anew, so that a port or memory taken meanwhile is not used, and start."""
        self.look_at_rig_again()
        facts = self.facts(entry)
        return self.start(self.plan_entry(entry, chosen, facts)).record

    def inspect(self, source: str) -> Inspection:
        """A checkpoint by folder, config.json or cached repository, judged through the slug it would get.

        Raises CockpitError when it cannot be read. Findings about this machine's engine are left out.
        """
        return inspection(source, self.rig)

    def new_slug(self, source: str, name: str | None = None) -> tuple[Path, Slug]:
        """Write a slug for a checkpoint into the user's folder; its file and the slug.

        Raises CockpitError when the checkpoint cannot be read or the slug's name or file is taken.
        """
        checkpoint = inspect(source)
        if checkpoint.folder is None and Path(source).name == "config.json":
            checkpoint = inspect(str(Path(source).parent))
        slug, text = propose(checkpoint, self.rig, name)
        named = (entry for entry in self.catalog.entries if slug.name in (entry.slug.name, *entry.slug.aliases))
        taken = next(named, None)
        if taken is not None:
            raise CockpitError(f"{slug.name} is already the name of a slug", str(taken.file), "Give another --name.")
        file = save(text, slug.name, paths.user_slugs())
        self.refresh()
        return file, slug

    @staticmethod
    def _address(chosen: Mapping[str, Any], facts: Facts) -> Address:
        """Look at a host or port that the user chose; those that the cockpit chose are known to be free."""
        if ("port" not in chosen and "host" not in chosen) or facts.rig.described is not None:
            return Address()
        port, host = chosen.get("port") or facts.free_port, chosen.get("host", facts.default_host)
        try:
            free = port_is_free(host, port)
        except CockpitError as error:
            return Address(problem=error.title if not error.detail else f"{error.title}: {error.detail}")
        owner = promised_to(host, port)
        if owner is not None and free:
            return Address(owner=f"{owner}, which is starting")
        return Address() if free else Address(owner=port_owner(port) or owner or "another program")


def _readable_secrets(entry: Entry) -> tuple[str, ...]:
    """Variables of a slug that hold secrets, when other users may read its file."""
    names = tuple(name for name in entry.slug.env if is_secret(name))
    try:
        return names if names and entry.file.stat().st_mode & 0o077 else ()
    except OSError:
        return ()


def refuse_if_blocked(plan: LaunchPlan, force: bool = False) -> None:
    """Raise CockpitError with every reason when the plan must not run."""
    blocks = refusals(plan.findings, force)
    if not blocks:
        return
    fixes = [finding.fix for finding in blocks if finding.fix]
    raise CockpitError(
        f"{plan.slug} cannot be served", "; ".join(finding.message for finding in blocks), " ".join(fixes)
    )
