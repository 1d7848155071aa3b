"""What to do about a refusal that no row of the table knows, read from its own sentence: what it asks for, compares,
needs or sets against each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from cockpit.supervisor.diagnose.shown import shown_exception
from cockpit.supervisor.diagnose.types import Evidence, Fix, Fixes

_LONGEST = 300
"""Characters of advice that a message gives itself."""
_PART_OF = {
    "AttentionConfig": "attention-config",
    "CompilationConfig": "compilation-config",
    "ECTransferConfig": "ec-transfer-config",
    "KernelConfig": "kernel-config",
    "KVEventsConfig": "kv-events-config",
    "KVTransferConfig": "kv-transfer-config",
    "PoolerConfig": "pooler-config",
    "ProfilerConfig": "profiler-config",
    "ReasoningConfig": "reasoning-config",
    "SpeculativeConfig": "speculative-config",
    "StructuredOutputsConfig": "structured-outputs-config",
}
"""Flags of vLLM that take JSON, by the class that reads it (EngineArgs of arg_utils.py)."""
_CLASS = re.compile(r"^(?P<name>\w+Config): ")
_WORD = r"(?<![\w-])--[a-z][\w-]*|[`'\"]-{0,2}[A-Za-z][\w-]*[`'\"]|(?<!\w)(?:[a-z][^\W_]*_\w+|[A-Z]{2,}_[A-Z0-9_]+)"
_NAMES = re.compile(rf"(?<![\w/.=-])(?:{_WORD})(?![\w/])")
_OF_THE_MODEL = re.compile(
    r"(?:hidden|head|vocab|intermediate|embedding)_?(?:size|dim)|num_(?:\w+_)?(?:heads|layers|experts)|hf_\w+"
    r"|\w*_layers?_\w+"
)
"""What a checkpoint has and no command changes."""
_VALUE = r"(?: ?[(=:] ?['\"]?(?P<{}>[\d.,]*\d)['\"]?\)?)?"
_MORE = r">=?|greater than(?: or equal to)?|larger than|more than|higher than|at least"
_LESS = r"<=?|less than(?: or equal to)?|smaller than|lower than|at most"
_COMPARED = re.compile(
    rf"(?P<left>{_WORD}){_VALUE.format('from')} "
    rf"(?P<how>must be|should be|has to be|cannot be|can't be|must not be|is|exceeds)(?: (?P<sign>{_MORE}|{_LESS}))? "
    rf"(?:the )?(?:(?P<right>{_WORD}){_VALUE.format('to')}|(?P<number>\d[\d.,]*\d|\d))"
)
_RENAMED = re.compile(
    rf"(?P<old>{_WORD}) (?:was|has been|is) (?:removed|renamed|deprecated|replaced|not a valid argument)[^.;,]*[.;,] "
    rf"(?:please )?(?:use|pass|set) (?P<new>{_WORD})",
    re.IGNORECASE,
)
_SENTENCES = re.compile(r"(?<=[.;!])\s+|,? (?=please )")
_VERBS = (
    "add|adjust|change|choose|consider|convert|decrease|disable|do not|either|enable|ensure|give|increase|install|"
    "leave|load|lower|make sure|omit|pass|provide|raise|reduce|remove|rename|select|set|specify|switch|try|unset|"
    "upgrade|use"
)
_ASKS = re.compile(
    r"^(?:please |you (?:can|could|may|should|must) |(?:or|so|then|otherwise,?) )*"
    rf"(?P<advice>(?:{_VERBS})\b.*)",
    re.IGNORECASE | re.DOTALL,
)
_NO_HELP = re.compile(
    r"\b(?:issue|report|contact|discussion|stack trace|gpu_memory_utilization|VLLM_ALLOW_\w+|allow[-_]deprecated)"
    r"|^use this|at your own risk|^\w+ one of them\.?$",
    re.IGNORECASE,
)
"""Advice that cures nothing, or that other rows give with the figures of the log."""
_CLASHES = re.compile(
    r"\b(?:(?:is|are) (?:incompatible|mutually exclusive)|cannot (?:both )?(?:be )?"
    r"(?:combined?|enabled?|paired?|set|used?)\b|can't be (?:set|used)"
    r"|(?:is|are) not (?:yet |currently )*(?:allowed|applicable|available|compatible|supported|valid)"
    r"|do(?:es)? not (?:yet |currently )*support:?)(?: together)?(?: (?:by|on|for|in|when|with))?",
    re.IGNORECASE,
)
_SETTING = re.compile(r"--[a-z]|VLLM_|`--|\w+_\w+=")
_HERE = re.compile(r"^(?:the |your )?(?:current|this|your|these)\b")
_NEEDS = re.compile(
    r"\b(?P<need>requires? (?!attention)|needs (?!to)|(?:is|are|can|should|must)(?: currently)? only "
    r"(?:be )?(?:applies|applicable|available|compatible|set|supported|used|valid)"
    r"(?: \w+)? (?:by|for|if|in|on|when|with) |(?:currently )?only (?:works|applies|supports) (?:with |to )?)"
    r"(?P<what>(?:[^.;]|\.(?=\S)){2,160})"
)
_MUST = re.compile(rf"(?P<name>{_WORD})[^.;]{{0,60}}? (?P<rule>(?:must|should|has to|needs to) [^.;]{{2,140}})")
_UNKNOWN = re.compile(
    r"(?:Invalid|Unknown|Unrecognized|Unsupported) (?P<kind>(?!value)[\w -]{2,40}?)(?: for [\w ]{2,40})?"
    r"(?:: |\s(?=[`'\"]))"
    r"[`'\"]?(?P<given>[\w.-]{1,60})[`'\"]?(?:[.,;]|$)"
)
_INVALID = re.compile(
    r"(?:Invalid|Unsupported) (?P<name>[a-z]\w*) (?P<given>\S{1,80})\. M(?P<rule>ust be [^.;]{2,140})"
)
_SIDE = 60
"""Characters of what a sentence sets against something else."""
_LISTED = re.compile(
    r"(?:[Ee]xpected one of|[Mm]ust be one of|[Cc]hoose (?:one )?(?:from|of)|[Vv]alid [\w ]{2,30} are|"
    r"[Ss]upported [\w ]{2,30} are|known [\w ]{2,20}|[Aa]vailable [\w ]{2,20})(?: are)?:? "
    r"(?P<words>[\[({'\"]?[\w.'\"-]+(?:,| or )[^.;]{1,160})"
)


_Shown = Callable[[str], str]
_Reader = Callable[[str, _Shown, Evidence], Iterator[Fix]]


def asked(seen: Evidence) -> list[Fix]:
    """What any exception says in so many words: the new name, the limit, or the next step."""
    return _read(seen, (_renamed, _compared, _asked))


def refused(otherwise: Fixes) -> Fixes:
    """What a refusal of the command asks for, best first; else what is told of any."""
    return lambda seen: (
        asked(seen) or _read(seen, (_needed, _clashing, _listed, _must_be, _ruled, _another)) or otherwise(seen)
    )


def _read(seen: Evidence, readers: tuple[_Reader, ...]) -> list[Fix]:
    whole = shown_exception(seen.incident).partition(": ")[2]
    part = _CLASS.match(whole)
    flag = _PART_OF.get(part["name"], "") if part else ""
    text = whole[part.end() :] if part else whole
    for read in readers:
        found = list(read(text, lambda name: _shown(name, flag, seen), seen))
        if found:
            return found
    return []


def _plain(name: str) -> str:
    return name.strip("`'\"").removeprefix("--").replace("-", "_")


def _shown(name: str, flag: str, seen: Evidence) -> str:
    """A setting as the user wrote it: a flag, a variable or a key of a flag's JSON."""
    plain = _plain(name)
    if plain.isupper():
        return plain
    if name.strip("`'\"").startswith("--") or (not flag and seen.arguments.chosen(plain)):
        return "--" + plain.replace("_", "-")
    holder = seen.arguments.holder(plain)
    flag = flag if holder is None else holder.replace("_", "-")
    return f"{plain} of --{flag}" if flag else plain


def _settings(text: str, seen: Evidence) -> list[str]:
    """Names in a text that are flags, keys or variables, in their order."""
    names = dict.fromkeys(match[0] for match in _NAMES.finditer(text))
    return [
        name
        for name in names
        if ("_" in name or name.strip("`'\"").startswith("--") or seen.arguments.chosen(_plain(name)))
        and not _OF_THE_MODEL.fullmatch(_plain(name))
    ]


def _renamed(text: str, shown: _Shown, seen: Evidence) -> Iterator[Fix]:
    match = _RENAMED.search(text)
    if match is not None:
        yield Fix(text=f"Give {shown(match['new'])} instead of {_plain(match['old'])}.")


def _compared(text: str, shown: _Shown, seen: Evidence) -> Iterator[Fix]:
    match = _COMPARED.search(text)
    if (
        match is None
        or not (match["sign"] or match["how"] == "exceeds")
        or _OF_THE_MODEL.fullmatch(_plain(match["left"]))
    ):
        return
    more = bool(re.fullmatch(_MORE, match["sign"] or ">"))
    refused = match["how"] in ("cannot be", "can't be", "must not be", "is", "exceeds")
    if more != refused:
        down, up, other = "Raise", "or more", "lower"
    else:
        down, up, other = "Lower", "or less", "raise"
    limit = match["number"] or match["to"] or shown(match["right"])
    strict = refused is (match["sign"] or "").endswith(("=", "to", "least", "most")) and match["how"] != "exceeds"
    to = f"{'above' if down == 'Raise' else 'below'} {limit}" if strict else f"to {limit} {up}"
    yield Fix(text=f"{down} {shown(match['left'])} {to}.")
    right = match["right"]
    if right and _plain(right) != "max_model_len" and _is_given(right, seen):
        there = f" to {match['from']}" if match["from"] else ""
        yield Fix(text=f"Or {other} {shown(right)}{there}.")


def _asked(text: str, shown: _Shown, seen: Evidence) -> Iterator[Fix]:
    for sentence in _SENTENCES.split(text):
        match = _ASKS.match(sentence.strip())
        words = " ".join(match["advice"].split()).rstrip(".;") if match else ""
        if words and not _NO_HELP.search(words) and len(words) <= _LONGEST:
            yield Fix(text=f"{words[0].upper()}{words[1:]}.")


def _needed(text: str, shown: _Shown, seen: Evidence) -> Iterator[Fix]:
    match = _NEEDS.search(text)
    clash = _CLASHES.search(text)
    if match is None or (clash is not None and clash.start() < match.start()):
        return
    names = _settings(text[: match.start()], seen)
    what = match["what"].strip()
    if not names and _SETTING.match(what):
        yield Fix(text=f"Give it what it needs: {what}.")
    elif names:
        yield _left_out(names[0], shown, seen)
        yield Fix(text=f"Or see to what it needs: {what}.")
    else:
        yield Fix(text=f"See to what it needs: {what}; or do without the part that needs it.")


def _clashing(text: str, shown: _Shown, seen: Evidence) -> Iterator[Fix]:
    match = _CLASHES.search(text)
    if match is None:
        return
    names = _settings(text, seen)
    given = [name for name in names if _is_given(name, seen)]
    for name in (given or names)[:2]:
        yield _left_out(name, shown, seen)
    left, right = (" ".join(part.split()).rstrip(".: ") for part in (text[: match.start()], text[match.end() :]))
    right = re.split(r"[.;,(]", right)[0].strip().removesuffix(" yet")
    if not names and 0 < len(left) <= _SIDE and right and len(right) <= _SIDE and "." not in left:
        yield Fix(
            text=f"Do without {left}." if _HERE.match(right) else f"Do without one of the two: {left}, or {right}."
        )


def _listed(text: str, shown: _Shown, seen: Evidence) -> Iterator[Fix]:
    match = _LISTED.search(text)
    if match is not None:
        yield Fix(text=f"Give one of: {match['words'].strip(' []{}()')}.")


def _ruled(text: str, shown: _Shown, seen: Evidence) -> Iterator[Fix]:
    match = _MUST.search(text)
    if match is not None and not _OF_THE_MODEL.fullmatch(_plain(match["name"])):
        yield Fix(text=f"Change {shown(match['name'])}: it {match['rule'].strip()}.")


def _must_be(text: str, shown: _Shown, seen: Evidence) -> Iterator[Fix]:
    match = _INVALID.match(text)
    if match is not None:
        yield Fix(text=f"Give another {match['name']} than {match['given']}: it m{match['rule'].strip()}.")


def _another(text: str, shown: _Shown, seen: Evidence) -> Iterator[Fix]:
    match = _UNKNOWN.match(text)
    if match is not None:
        yield Fix(text=f"Give another {match['kind'].strip()} than {match['given']}: this vLLM does not know it.")


def _is_given(name: str, seen: Evidence) -> bool:
    plain = _plain(name)
    if plain.isupper():
        return plain in seen.arguments.environment
    return seen.arguments.chosen(plain) or seen.arguments.holder(plain) is not None


def _left_out(name: str, shown: _Shown, seen: Evidence) -> Fix:
    plain = _plain(name)
    if plain.isupper():
        return Fix(text=f"Unset {plain}.")
    called = shown(name)
    return Fix(text=f"Leave {called} out.", drops=plain if called.startswith("--") else "")
