"""Run under vLLM's Python: the kernel for few tokens, compiled for cards that are not here, and what came of it.

A Triton of another version may lay lanes out in another way, or wait for each load by itself. Prints ``compiled``
when words and activations of a group are read before the first product, by lanes in order.
"""

import re
import subprocess
import tempfile
from pathlib import Path

import cockpit_int8_kernel as kernel
import triton
from cockpit_int8_decode import WAYS
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TOOL = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
INTEGERS = ("rows", "size_k", "size_n", "groups", "nothing")
TYPES = {"x": "*i64", "factor": "*fp32", "partial": "*fp32"}


def compiled(capability: int, bf16: bool, tiles: int, step: int, split: int) -> dict[str, str]:
    chosen = {**kernel.constants(bf16, tiles), "step": step, "split": split, "has_bias": True}
    names = kernel.few_tokens.arg_names
    activations = "*bf16" if bf16 else "*fp16"
    signature = (
        dict.fromkeys(names, "*i32") | TYPES | dict.fromkeys(INTEGERS, "i32") | dict.fromkeys(chosen, "constexpr")
    )
    signature |= {"bias": activations, "out": activations}
    whole = [name for name in names if name not in chosen and name not in ("rows", "groups", "nothing")]
    source = ASTSource(
        fn=kernel.few_tokens,
        signature=signature,
        constexprs=chosen,
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in whole},
    )
    done = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": step})
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(done.asm["cubin"])
        file.flush()
        sass = subprocess.run([TOOL, "-sass", file.name], capture_output=True, text=True, check=True).stdout
    return {"ttgir": done.asm["ttgir"], "sass": sass}


def check(capability: int, bf16: bool, tiles: int, step: int, split: int) -> None:
    found = compiled(capability, bf16, tiles, step, split)
    loop = found["ttgir"].split("scf.for", 1)[1].split("scf.yield", 1)[0]
    layouts = dict(re.findall(r"(#\w+) = #ttg\.blocked<\{(.*?)\}>", found["ttgir"]))
    loads = [
        (kind, layouts[name]) for kind, name in re.findall(r"tt\.load .*?tensor<.*?!tt\.ptr<(\w+)>, (#\w+)>", loop)
    ]
    assert [kind for kind, _ in loads].count("i64") == 2 * tiles, loads
    assert all(f"threadsPerWarp = [32, 1], warpsPerCTA = [{step}, 1]" in layout for _, layout in loads), loads
    assert not re.search(r"@!?U?P\d+ HMMA", found["sass"])
    before = found["sass"].split("HMMA", 1)[0]
    assert not re.search(r"BAR|SHFL|STS", before), (capability, tiles, step, split)
    assert before.count("LDG.E.64") >= 2 * tiles, (capability, tiles, step, split)
    assert before.count("LDG.E.128") >= tiles, (capability, tiles, step, split)


for at, way in enumerate(WAYS):
    check((80, 86, 90, 120)[at % 4], True, 4, *way)
check(89, False, 4, *WAYS[0])
check(86, True, 2, *WAYS[1])
check(90, False, 1, *WAYS[2])
print("compiled")
