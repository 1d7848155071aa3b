"""A slug for a checkpoint: it loads again, agrees with the files, fits the rig, and overwrites nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from checkpoint_files import FIXTURES, config, rebuild, write_config
from hypothesis import event, given, settings
from hypothesis import strategies as st
from made_checkpoints import GDN, changed, checkpoint, quantized, scheme
from test_checkpoint_fuzz import NAMES, paths, values

from cockpit.catalog.load import Entry, load, read_slug
from cockpit.catalog.slug import Slug
from cockpit.checkpoint.inspect import inspect
from cockpit.checkpoint.types import Checkpoint, Sizes
from cockpit.errors import CockpitError
from cockpit.launch.new_slug import propose, save, slug_name
from cockpit.launch.plan import Facts, context_for, make_plan
from cockpit.launch.slug_fit import slug_fit
from cockpit.rig.described import load_rig
from cockpit.rig.types import Gpu, Rig
from cockpit.rules.parallel import unshared
from cockpit.rules.plan_rules import plan_findings, refusals
from cockpit.strict_yaml import decode
from cockpit.units import GIB

RIGS = {name: load_rig(name) for name in ("1x3090", "2x3090", "4x3090", "2x5090", "1xh200")} | {
    "none": Rig(described="none")
}
UNDECLARABLE = {"bitsandbytes-nf4", "unknown-method"}
FAMILIES = sorted(
    {folder.name for folder in FIXTURES.iterdir() if not folder.name.startswith("real-")} - UNDECLARABLE
)


def proposed(of: Checkpoint, rig: Rig = RIGS["2x3090"], name: str | None = None) -> Slug:
    """The slug, which its own text must make again."""
    slug, text = propose(of, rig, name)
    again, _ = decode(text, Slug, "text")
    assert again == slug
    assert all(line.isprintable() for line in text.splitlines())
    return slug


def rules_of(slug: Slug, of: Checkpoint, rig: Rig) -> list[str]:
    facts = Facts(rig=rig, checkpoint=of, engine=None, environ={}, free_port=8000, cwd="/")
    return [finding.rule for finding in plan_findings(context_for(slug, {}, facts))]


def kv_bytes(of: Checkpoint, slug: Slug) -> float:
    """Bytes of one full request on each GPU, by an arithmetic of its own."""
    full = of.layers.get("full_attention", 0) + of.mtp_layers
    window = min(slug.max_model_len, of.sliding_window or slug.max_model_len)
    held = full * slug.max_model_len + of.layers.get("sliding_attention", 0) * window
    heads = math.ceil(of.kv_heads / slug.tensor_parallel)
    element = 1 if slug.kv_cache_dtype.startswith("fp8") else 2
    return held * heads * of.head_dim * element * 2


@pytest.mark.parametrize("rig_name", RIGS)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_gets_a_slug_that_suits_the_rig(name: str, rig_name: str) -> None:
    of, rig = inspect(str(FIXTURES / name)), RIGS[rig_name]
    slug = proposed(of, rig)
    _, text = propose(of, rig)
    print(f"{name:<30} {rig_name:<7} TP {slug.tensor_parallel} {slug.max_model_len:>9,} {slug.kv_cache_dtype}")
    assert slug.tensor_parallel <= max(1, len(rig.gpus))
    assert unshared(of, slug.tensor_parallel) is None
    assert slug.max_model_len <= (of.max_model_len or slug.max_model_len)
    assert slug.int8 == "off"
    assert (slug.platform == "cpu") == (not rig.gpus and of.quantization.method == "none")
    assert (slug.max_num_seqs is not None) == (not {"linear_attention", "mamba"}.isdisjoint(of.layers))
    assert (slug.speculative is not None) == (slug.platform == "cuda" and of.mtp_layers > 0)
    allowed = {"engine-missing", "weights-missing", "gpu-missing", "kv-heads-replicated"}
    allowed |= {"embedding-overlay", "plain-targets", "packed-experts"}
    assert set(rules_of(slug, of, rig)) <= allowed
    if rig.gpus and of.sizes is not None and "more than fits" not in text:
        needed = of.sizes.total / slug.tensor_parallel + kv_bytes(of, slug)
        usable = rig.gpus[0].usable_bytes
        assert usable is not None and slug.gpu_memory_utilization is not None
        assert needed <= slug.gpu_memory_utilization * usable - GIB


@pytest.mark.parametrize(
    ("gib", "rig", "parallel"),
    [(5, "1x3090", 1), (5, "4x3090", 1), (22, "2x3090", 2), (30, "2x5090", 2), (50, "4x3090", 4), (50, "1xh200", 1)],
)
def test_as_few_gpus_as_hold_it(gib: int, rig: str, parallel: int) -> None:
    assert proposed(sized(gib), RIGS[rig]).tensor_parallel == parallel


def sized(gib: float, **fields: Any) -> Checkpoint:
    total = int(gib * GIB)
    return checkpoint(
        sizes=Sizes(total=total, body=total, embed_tokens=0, lm_head=0, mtp=0, vision=0, estimated=False), **fields
    )


def test_what_fits_nowhere_is_said_beside_the_widest_split() -> None:
    slug, text = propose(sized(500), RIGS["4x3090"])
    assert slug.tensor_parallel == 4
    assert "more than fits this rig well" in text
    assert slug.max_model_len == 1024


def test_heads_limit_the_split_whatever_the_memory() -> None:
    odd = sized(60, attention_heads=24, kv_heads=6)
    assert proposed(odd, RIGS["4x3090"]).tensor_parallel == 2
    gdn = msgspec.structs.replace(GDN, key_heads=3)
    assert proposed(sized(60, linear_attention=gdn), RIGS["4x3090"]).tensor_parallel == 1


def test_the_kv_type_is_halved_before_the_context_is_cut() -> None:
    of = sized(15, max_model_len=40960)
    assert (proposed(of, RIGS["1xh200"]).max_model_len, proposed(of, RIGS["1xh200"]).kv_cache_dtype) == (
        40960,
        "auto",
    )
    assert proposed(of, RIGS["1x3090"]).kv_cache_dtype == "fp8_e4m3"
    assert proposed(of, RIGS["1x3090"]).max_model_len == 40960
    cut = proposed(msgspec.structs.replace(of, max_model_len=10**6), RIGS["1x3090"])
    assert 40960 < cut.max_model_len < 10**6
    assert cut.max_model_len % 1024 == 0


@pytest.mark.parametrize("native", [1, 15, 16, 500, 1000, 10**8, None])
@pytest.mark.parametrize("gib", [0.001, 500])
@pytest.mark.parametrize("rig", ["1x3090", "none"])
def test_any_length_of_the_model_makes_a_slug(native: int | None, gib: float, rig: str) -> None:
    slug = proposed(sized(gib, max_model_len=native), RIGS[rig])
    assert slug.max_model_len <= max(16, native or 10**6)


def test_layers_that_keep_no_keys_divide_by_nothing() -> None:
    of = sized(10, layers={"linear_attention": 48}, linear_attention=GDN)
    assert proposed(of).max_model_len == 32768, "no KV cache to fit it to"


@pytest.mark.parametrize("rig", ["2x3090", "none"])
@pytest.mark.parametrize("model_type", ["foobar", "deepseek_v3", "two\nlines: yes"])
def test_what_a_plan_calls_unknown_is_no_certain_context(model_type: str, rig: str) -> None:
    of = changed(sized(3, model_type=model_type), method="none")
    slug, text = propose(of, RIGS[rig])
    facts = Facts(rig=RIGS[rig], checkpoint=of, engine=None, environ={}, free_port=8000, cwd="/")
    fit = slug_fit(slug, {}, facts)
    assert fit.fits == "unknown" and fit.reason
    (line,) = [line for line in text.splitlines() if "KV cache" in line]
    assert line.endswith((f"cautious: {fit.reason}".replace("\n", " "), f"figure: {fit.reason}".replace("\n", " ")))
    assert "certainly" not in text and "\nlines" not in text


def test_sizes_and_rigs_that_are_not_known_make_a_cautious_slug() -> None:
    unknown = Rig(gpus=(Gpu(index=0, uuid="GPU-0", name="a card"),))
    for of, rig in ((checkpoint(sizes=None), RIGS["4x3090"]), (sized(5), unknown)):
        slug = proposed(of, rig)
        assert (slug.tensor_parallel, slug.max_model_len) == (1, 32768)


@pytest.mark.parametrize("name", sorted(UNDECLARABLE))
def test_a_method_that_no_slug_can_declare_is_one_sentence(name: str) -> None:
    with pytest.raises(CockpitError) as refused:
        propose(inspect(str(FIXTURES / name)), RIGS["2x3090"])
    assert "which a slug cannot declare" in refused.value.title
    assert "auto-round, compressed-tensors, gptq" in refused.value.fix
    assert json.loads((FIXTURES / name / "config.json").read_text())["quantization_config"]["quant_method"] in str(
        refused.value
    )


def test_a_method_without_a_name_is_one_sentence_too() -> None:
    with pytest.raises(CockpitError, match="is quantized with an unknown method"):
        propose(changed(checkpoint(), method="other", declared_method=None), RIGS["2x3090"])


def test_the_weights_are_declared_as_the_files_hold_them(tmp_path: Path) -> None:
    of = inspect(str(rebuild("real-compressed-tensors", tmp_path / "real")))
    slug = proposed(of)
    assert of.sizes is not None
    assert slug.weights.path == str(tmp_path / "real")
    assert (slug.weights.format, slug.weights.bits, slug.weights.widths) == ("compressed-tensors", None, [4, 5, 6, 8])
    assert (slug.weights.symmetric, slug.weights.embedding_bits) == (False, of.quantization.embed_tokens_bits)
    _, text = propose(of, RIGS["2x3090"])
    assert "1 of 4-bit, 6 of 5-bit, 12 of 6-bit, 2 of 8-bit" in text
    assert "the safetensors headers" in text


def test_a_repository_is_named_and_not_its_snapshot() -> None:
    slug = proposed(checkpoint(source="Qwen/Qwen3-8B_x", folder="/cache/models--Qwen--Qwen3-8B_x/snapshots/abc"))
    assert (slug.name, slug.model) == ("local/qwen3-8b_x", "Qwen3-8B_x")
    assert (slug.weights.repo, slug.weights.path) == ("Qwen/Qwen3-8B_x", None)


def test_a_lone_config_is_no_checkpoint(tmp_path: Path) -> None:
    file = write_config(tmp_path, config("llama")) / "config.json"
    with pytest.raises(CockpitError, match="is a lone file") as refused:
        propose(inspect(str(file)), RIGS["2x3090"])
    assert "folder" in refused.value.fix


HOSTILE = [
    'quo"te', "apo'strophe", "hash # comment: yes", "a: b", "- list", "{brace", "[bracket", "&anchor", "!tag", "*",
    "back\\slash", "\\n", "new\nline", "tab\tstop", "ünïcödé", "模型", "🚀", "\u2028line", "\ufeffbom",
    "\u202eright", "nbsp\xa0", " lead", "trail ", "...", "-dash", "null", "true", "~", "on", "1e3", "a" * 200,
    "a\u00adb", "\U000e0001", "%", "UPPER",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=[ascii(name)[:20] for name in HOSTILE])
def test_a_folder_of_any_name_comes_back_exactly(tmp_path: Path, name: str) -> None:
    folder = write_config(tmp_path / name, config("auto-round-w4"))
    slug = proposed(inspect(str(folder)))
    assert slug.weights.path == str(folder)
    file = save(propose(inspect(str(folder)), RIGS["2x3090"])[1], slug.name, tmp_path / "slugs")
    assert Entry(slug=read_slug(file), file=file, shipped=False).model_source == str(folder)


@pytest.mark.parametrize("name", ["caf\udce9", "es\x1bc", "bell\x07", "del\x7f", "\x9bcsi", "c\rr", "\x85next"])
def test_a_folder_that_no_yaml_can_hold_is_one_sentence(tmp_path: Path, name: str) -> None:
    folder = write_config(tmp_path / name, config("auto-round-w4"))
    with pytest.raises(CockpitError) as refused:
        propose(inspect(str(folder)), RIGS["2x3090"])
    assert refused.value.fix == "Rename the folder."
    assert refused.value.title.isprintable()


FOLDERS = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=60)


@settings(max_examples=100, deadline=None)
@given(FOLDERS.filter(lambda name: name not in (".", "..")))
def test_any_folder_name_makes_the_same_path_or_one_sentence(name: str) -> None:
    folder = f"/no-such-place/{name}"
    of = checkpoint(source=folder, folder=folder)
    try:
        slug = proposed(of)
    except CockpitError as error:
        assert "control characters" in error.title
        return
    assert slug.weights.path == folder


def test_a_relative_folder_and_a_dot_are_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_config(tmp_path / "My Model", config("llama"))
    monkeypatch.chdir(folder)
    for source in (".", "./", "../My Model", str(folder) + "/"):
        slug = proposed(inspect(source))
        assert (slug.name, slug.model, slug.weights.path) == ("local/my-model", "My Model", str(folder))


def test_a_folder_below_the_home_is_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(tmp_path / "m", config("llama"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert proposed(inspect("~/m")).weights.path == str(tmp_path / "m")


@given(FOLDERS)
def test_any_source_makes_a_name_that_a_slug_may_have(name: str) -> None:
    made = slug_name(checkpoint(source=f"o/{name}", folder="/cache/x"))
    assert proposed(checkpoint(), name=made).name == made
    assert made.startswith("local/")


@pytest.mark.parametrize(
    "name",
    [
        "", "x", "a/b/c", "../x", "a/../b", "a/..", "/etc/x", "A/b", "a/B", "a b/c", "a/b\n", "a/b\nint8: on",
        "a/b # c", "a/b: c", "a/" + "x" * 100, "\x1b/x", "a/\udcff", "-a/b", ".a/b",
    ],
)  # fmt: skip
def test_a_name_that_no_slug_may_have_is_one_sentence(name: str) -> None:
    with pytest.raises(CockpitError) as refused:
        propose(checkpoint(), RIGS["2x3090"], name)
    assert "cannot be the name of a slug" in refused.value.title
    assert refused.value.sentence().isprintable()
    assert len(refused.value.sentence()) < 250


def test_a_given_name_is_the_slugs() -> None:
    assert proposed(checkpoint(), name="vllm/mine-1.0_x").name == "vllm/mine-1.0_x"


def test_a_file_that_is_there_is_never_touched(tmp_path: Path) -> None:
    file = save("one", "local/a", tmp_path)
    assert file == tmp_path / "local" / "a.yaml"
    with pytest.raises(CockpitError, match="is there already"):
        save("two", "local/a", tmp_path)
    dangling = tmp_path / "local" / "b.yaml"
    dangling.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CockpitError, match="is there already"):
        save("two", "local/b", tmp_path)
    assert file.read_text() == "one"
    assert not (tmp_path / "elsewhere").exists()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "local").write_text("a file in place of a folder")
    with pytest.raises(CockpitError, match="cannot write") as refused:
        save("one", "local/a", tmp_path)
    assert refused.value.fix


def agreed(folder: Path, rig: Rig) -> str:
    """What an inspectable checkpoint must come to: a slug on disk that agrees with the files, and a plan."""
    try:
        of = inspect(str(folder))
        slug, text = propose(of, rig)
    except CockpitError as error:
        assert error.fix
        return "refused"
    slugs = folder.parent / "agreed-slugs"
    (slugs / f"{slug.name}.yaml").unlink(missing_ok=True)
    file = save(text, slug.name, slugs)
    catalog = load(slugs)
    assert catalog.problems == ()
    entry = catalog.get(slug.name)
    assert (entry.file, entry.slug) == (file, slug)
    assert entry.model_source == str(folder)
    facts = Facts(rig=rig, checkpoint=of, engine=None, environ={}, free_port=8000, cwd="/")
    plan = make_plan(entry, {}, facts)
    assert "slug-disagrees" not in [finding.rule for finding in plan.findings]
    blocks = {finding.rule for finding in refusals(plan.findings)}
    tiny = of.max_model_len is not None and of.max_model_len < 16
    known = {"weights-missing", "gpu-missing", "embedding-width", "tokenizer-missing"}
    # Weights and state that fill the whole rig are what they are.
    known |= {"kv-one-request", "hybrid-state-blocks"}
    assert blocks <= known | ({"context-native"} if tiny else set())
    return f"blocked by {sorted(blocks)}"


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_checkpoint_agrees_with_its_slug(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    if name.startswith("real-"):
        rebuild(name, folder)
    else:
        write_config(folder, config(name))
        for beside in FIXTURES.joinpath(name).glob("hf_quant_config.json"):
            (folder / beside.name).write_bytes(beside.read_bytes())
    assert (agreed(folder, RIGS["4x3090"]) == "refused") == (name in UNDECLARABLE)


@settings(max_examples=100, deadline=60_000)
@given(st.sampled_from(NAMES), st.sampled_from(list(RIGS.values())), st.data())
def test_any_checkpoint_that_can_be_read_agrees_with_its_slug(
    tmp_path_factory: pytest.TempPathFactory, name: str, rig: Rig, data: st.DataObject
) -> None:
    value = config(name)
    *above, last = data.draw(st.sampled_from([path for path in paths(value) if path]))
    target = value
    for key in above:
        target = target[key]
    target[last] = data.draw(st.integers(1, 300) | values)
    folder = tmp_path_factory.getbasetemp() / "agreed" / "model"
    event(agreed(write_config(folder, json.dumps(value)), rig))


def test_packed_floats_are_declared_by_their_own_name() -> None:
    floats = quantized(scheme(4, "float", group_size=16), method="compressed-tensors")
    assert proposed(checkpoint(floats)).weights.format == "nvfp4"
