# SPDX-License-Identifier: Apache-2.0
"""What an installed wheel must do, by itself: wheel_check.py [--models] [--cuda] [--vulkan]. Run by tests/package/wheels
in an empty environment, for other machines under emulation.

--models: runnel-model and runnel-model-small are installed, too; --cuda: runnel-cuda; --vulkan: there is a driver (a GPU's or
a software one). Without --models the file of the small model is named in RUNNEL_CHECK_MODEL.
"""
import importlib.metadata
import os
import pickle
import sys
import tempfile
import time
from pathlib import Path

began = time.perf_counter()
import runnel  # noqa: E402

took = time.perf_counter() - began
PROMPT = "The capital of France is"
checks = 0


def check(good, what):
    global checks
    if not good:
        sys.exit(f"FAILED: {what}")
    checks += 1
    print(f"ok: {what}", flush=True)


def says_paris(model):
    session = model.session()
    session.prefill(PROMPT)
    return "Paris" in session.complete(max_tokens=4)


models, cuda, vulkan = (f"--{name}" in sys.argv for name in ("models", "cuda", "vulkan"))
distributions = ["runnel", *(["runnel-model", "runnel-model-small"] if models else []), *(["runnel-cuda"] if cuda else [])]
inside = Path(runnel.__file__).parent
check(Path(sys.prefix) in inside.parents, f"imported from the environment in {took:.2f} s")
for name in distributions:
    about = importlib.metadata.metadata(name)
    files = {str(path) for path in importlib.metadata.files(name) or []}
    licences = about.get_all("License-File") or []
    expression = about["License-Expression"]
    check(about["Version"] == runnel.__version__ and expression, f"{name} {about['Version']}: {expression}")
    missing = [text for text in licences if not any(path.endswith(f".dist-info/licenses/{text}") for path in files)]
    check("LICENSE" in licences and not missing, f"{name}: {len(licences)} licences inside")
    grafted = {path.split("/")[1] for path in files if ".libs/" in path}
    check(all(any(text.removesuffix(".txt") in library for text in licences) for library in grafted),
          f"{name}: of each library that comes along, too ({len(grafted)})")

devices = [device.id for device in runnel.devices()]
check("cpu" in devices, f"devices: {', '.join(devices)}")
if models:
    check(says_paris(runnel.Model(device="cpu")), "the default model is found and answers")
small = runnel.Model("small" if models else os.environ["RUNNEL_CHECK_MODEL"], device="cpu")
check(says_paris(small), "the small model answers")
if not models:
    try:
        runnel.Model()
        check(False, "there is no default model")
    except runnel.NotFoundError as error:
        check("pip install runnel-model" in str(error), "without a model's wheel, the error names it")
session = small.session()
session.prefill(PROMPT)
whole = session.fork().complete(max_tokens=12)
again = small.session()
again.restore(pickle.loads(pickle.dumps(session.snapshot())))
check(again.complete(max_tokens=12) == whole, "a pickled snapshot goes on")
digits = runnel.Constraint.regex(small, "[0-9]{4}")
said = session.complete(max_tokens=8, constraint=digits)
check(said.strip().isdigit() and len(said.strip()) == 4, f"a constraint is kept: {said!r}")
with tempfile.TemporaryDirectory() as folder, runnel.Store(Path(folder) / "chats.db") as store:
    with store.open(small, "talk") as chat:
        turn = chat.send("My sister keeps bees.", max_tokens=4)
    hits = store.search("bees")
    check(len(hits) == 1 and turn.answer is not None, "a conversation is kept and found")
wanted = inside.with_name("runnel_cuda") if cuda else inside
# Under emulation this shows what the emulator has mapped: the same files.
with open("/proc/self/maps", encoding="utf-8") as maps:
    mapped = {Path(line.split()[-1]) for line in maps if "/librunnel" in line}
check({path.name for path in mapped} == {"librunnel.so.0", "librunnel_store.so.0", "librunnel_grammar.so.0"}
      and all(path.parent == wanted for path in mapped), f"all three libraries are those of {wanted.name}")
if vulkan:
    found = [device for device in devices if device.startswith("vulkan")]
    check(found, "Vulkan lists a device")
    check(says_paris(runnel.Model("small" if models else os.environ["RUNNEL_CHECK_MODEL"], device=found[0])),
          f"{found[0]} answers")
else:
    check(not any(device.startswith("vulkan") for device in devices), "no driver of Vulkan, and none is asked for")
if cuda and not any(device.startswith("cuda") for device in devices):
    try:
        runnel.Model("small", device="cuda:0")
        check(False, "a GPU that is not there is used")
    except runnel.Error as error:
        check("cuda:0" in str(error), f"a GPU that is not there is refused by name: {type(error).__name__}")
    check(runnel.Model("small").device == "cpu" or vulkan, "without a GPU, auto computes on the CPU")
elif cuda:
    check(says_paris(runnel.Model("small", device="cuda:0")), "cuda:0 answers")
print(f"{checks} passed, 0 failed")
