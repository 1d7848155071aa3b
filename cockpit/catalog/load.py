"""Reading all slugs: the user's folder over the shipped one, each broken file kept as a problem of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from cockpit.catalog.slug import Slug
from cockpit.errors import CockpitError
from cockpit.nearest import did_you_mean
from cockpit.strict_yaml import MAX_BYTES, decode, read_text

RESERVED_FLAGS = {
    "host": "host",
    "port": "port",
    "max-model-len": "max_model_len",
    "kv-cache-dtype": "kv_cache_dtype",
    "gpu-memory-utilization": "gpu_memory_utilization",
    "max-num-seqs": "max_num_seqs",
    "tensor-parallel-size": "tensor_parallel",
    "device-ids": "the gpus toggle",
    "speculative-config": "speculative",
    "enforce-eager": "enforce_eager",
    "enable-prefix-caching": "prefix_caching",
    "no-enable-prefix-caching": "prefix_caching",
    "disable-prefix-caching": "prefix_caching",
    "served-model-name": "served_model_name",
    "api-key": "the environment variable VLLM_API_KEY, or the file api-key beside config.yaml",
    "hf-token": "the environment variable HF_TOKEN, or `hf auth login`",
    "language-model-only": "weights.vision and the vision toggle",
    "config": "the keys of the slug itself",
}
"""Flags that have a key of their own in a slug: given twice, one of them would be a lie."""
RESERVED_ENV = {"VLLM_MARLIN_INPUT_DTYPE": "int8", "CUDA_VISIBLE_DEVICES": "the gpus toggle"}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A slug and the file it came from."""

    slug: Slug
    file: Path
    shipped: bool

    @property
    def model_source(self) -> str:
        """What ``vllm serve`` is given: the repository, or the checkpoint folder as an absolute path."""
        weights = self.slug.weights
        return weights.repo if weights.repo is not None else str(self._beside(weights.path or "."))

    @property
    def architecture_file(self) -> Path | None:
        """The config.json with the model's dimensions that the slug names; None when it names none."""
        named = self.slug.weights.architecture
        return None if named is None else self._beside(named)

    def _beside(self, path: str) -> Path:
        return (self.file.parent / Path(path).expanduser()).resolve()


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A slug file that cannot be used."""

    name: str
    file: Path
    title: str
    detail: str
    fix: str


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Every usable slug, sorted by name, and every file that is not one."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]

    def get(self, name: str) -> Entry:
        """The slug of that name or alias.

        Raises CockpitError that names the nearest ones, or what is wrong with its file.
        """
        for entry in self.entries:
            if name == entry.slug.name:
                return entry
        for entry in self.entries:
            if name in entry.slug.aliases:
                return entry
        for problem in self.problems:
            if name == problem.name:
                raise CockpitError(problem.title, problem.detail, problem.fix)
        known = [known for entry in self.entries for known in (entry.slug.name, *entry.slug.aliases)]
        short = [entry.slug.name for entry in self.entries if entry.slug.short_name == name]
        hint = did_you_mean(name, short or known, "`cockpit slugs` lists them all.")
        raise CockpitError(f"no slug is named {name[:80]!r}", fix=hint)

    def matching(self, words: str) -> tuple[Entry, ...]:
        """Entries in whose name, aliases, model, weights or repository every word occurs, case-insensitively."""
        wanted = words.lower().split()
        return tuple(entry for entry in self.entries if all(word in haystack(entry.slug) for word in wanted))

    def meant(self, words: str) -> str:
        """What to say where nothing matches: the nearest to a word that occurs nowhere, else where all are listed."""
        texts = [haystack(entry.slug) for entry in self.entries]
        known = sorted({part for text in texts for part in text.replace("/", " ").split()})
        strange = (word for word in words.lower().split() if not any(word in text for text in texts))
        otherwise = "`cockpit slugs` lists them all."
        return did_you_mean(next(strange, ""), known, otherwise)


def haystack(slug: Slug) -> str:
    """The lower-case text that a filter searches."""
    weights = slug.weights
    parts = [
        slug.name,
        *slug.aliases,
        slug.model,
        weights.label,
        weights.format,
        weights.repo or "",
        slug.platform,
    ]
    return " ".join(parts).lower()


def _semantic_error(slug: Slug) -> tuple[tuple[str | int, ...], str] | None:
    weights = slug.weights
    if (weights.repo is None) == (weights.path is None):
        return ("weights",), "give exactly one of repo and path"
    for flag in slug.flags:
        # vLLM takes any unique beginning of a flag for the flag.
        reserved = next((known for known in RESERVED_FLAGS if known.startswith(flag)), None)
        if reserved is not None:
            return ("flags", flag), f"--{reserved} has a key of its own: use {RESERVED_FLAGS[reserved]}"
    for variable in slug.env:
        if variable in RESERVED_ENV:
            return ("env", variable), f"{variable} is set by {RESERVED_ENV[variable]}"
    if slug.name in slug.aliases:
        return ("aliases",), "an alias repeats the slug's own name"
    return None


def _missing_architecture(slug: Slug, file: Path) -> tuple[tuple[str | int, ...], str] | None:
    named = slug.weights.architecture
    if named is None:
        return None
    try:
        there = (file.parent / Path(named).expanduser()).is_file()
    except (OSError, RuntimeError, ValueError):
        there = False
    return None if there else (("weights", "architecture"), f"there is no file {named[:80]!a}")


def read_slug(file: Path) -> Slug:
    """Read and check one slug file.

    Raises CockpitError with file and line for anything that is not exactly right.
    """
    try:
        text = read_text(file)
    except FileNotFoundError as error:
        raise CockpitError(f"{file}: cannot be read", "it is gone", "Run the command again.") from error
    slug, lines = decode(text, Slug, str(file))
    wrong = _semantic_error(slug) or _missing_architecture(slug, file)
    if wrong is not None:
        path, message = wrong
        raise CockpitError(
            f"{file}, line {lines.get(path, 1)}: {message}",
            fix="Correct that line and run the command again.",
        )
    return slug


def _declared_name(file: Path, folder: Path) -> str:
    """The best name for a file that cannot be read: what it says itself, else its place."""
    try:
        with file.open(encoding="utf-8", errors="replace") as handle:
            beginning = handle.read(MAX_BYTES)
        for line in beginning.splitlines()[:200]:
            if line.startswith("name:") and (name := line.removeprefix("name:").split("#")[0].strip().strip("'\"")):
                return name[:80]
    except OSError:
        pass
    return file.relative_to(folder).with_suffix("").as_posix()


def _problem(name: str, file: Path, error: CockpitError) -> Problem:
    return Problem(name=name, file=file, title=error.title, detail=error.detail, fix=error.fix)


def _load_folder(folder: Path, shipped: bool) -> tuple[list[Entry], list[Problem]]:
    entries: list[Entry] = []
    problems: list[Problem] = []
    taken: dict[str, Path] = {}
    for file in sorted(path for path in folder.rglob("*") if path.suffix in {".yaml", ".yml"} and path.is_file()):
        try:
            slug = read_slug(file)
            for name in (slug.name, *slug.aliases):
                if name in taken:
                    raise CockpitError(
                        f"{file}: {name} is already the name of another slug",
                        str(taken[name]),
                        "Rename one of them.",
                    )
        except CockpitError as error:
            problems.append(_problem(_declared_name(file, folder), file, error))
            continue
        taken.update(dict.fromkeys((slug.name, *slug.aliases), file))
        entries.append(Entry(slug=slug, file=file, shipped=shipped))
    return entries, problems


def _without_aliases(entry: Entry, names: set[str]) -> Entry:
    """The entry without those of its aliases that a later folder claims."""
    if names.isdisjoint(entry.slug.aliases):
        return entry
    kept = [alias for alias in entry.slug.aliases if alias not in names]
    return msgspec.structs.replace(entry, slug=msgspec.structs.replace(entry.slug, aliases=kept))


def load(shipped_folder: Path, user_folders: Sequence[Path] = ()) -> Catalog:
    """Read every slug; a later folder wins over an earlier one, names and aliases included.

    Never raises for a bad file: it becomes a Problem and hides nothing, not even the shipped slug it would replace.
    """
    chosen: dict[str, Entry] = {}
    problems: list[Problem] = []
    for position, folder in enumerate((shipped_folder, *user_folders)):
        if not folder.is_dir():
            continue
        entries, bad = _load_folder(folder, shipped=position == 0)
        problems.extend(bad)
        for entry in entries:
            names = {entry.slug.name, *entry.slug.aliases}
            chosen = {
                name: _without_aliases(other, names) for name, other in chosen.items() if other.slug.name not in names
            }
            chosen[entry.slug.name] = entry
    return Catalog(
        entries=tuple(chosen[name] for name in sorted(chosen)),
        problems=tuple(sorted(problems, key=lambda problem: problem.name)),
    )
