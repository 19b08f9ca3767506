# SPDX-License-Identifier: Apache-2.0
"""How the package finds the models that come with Runnel, and its libraries."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import runnel
from runnel import _models

ROOT = Path(__file__).resolve().parents[2]
SMALL = "runnel-gsa-135m-instruct.gguf"


class CarriedModels(unittest.TestCase):
    def test_are_found_beside_the_source_tree(self) -> None:
        if ROOT not in Path(runnel.__file__).resolve().parents:
            self.skipTest("an installed package is tested")
        self.assertEqual(_models.find("small"), ROOT / "models" / SMALL)
        self.assertEqual(_models.find("default").parent, ROOT / "models")
        with runnel.Model("small", device="cpu") as model:
            self.assertIn("135", model.name)

    def test_a_wheel_comes_first(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "runnel_model_small"
            package.mkdir()
            (package / "__init__.py").write_text("raise ImportError('looking for the file needs no import')\n")
            (package / SMALL).symlink_to(ROOT / "models" / SMALL)
            with mock.patch.object(sys, "path", [folder, *sys.path]):
                self.assertEqual(_models.find("small"), package / SMALL)

    def test_the_users_data_folder_is_looked_in(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "runnel").mkdir()
            (Path(folder) / "runnel/own.gguf").touch()
            with mock.patch.dict(_models.CARRIED, {"default": ("runnel_model", "own.gguf")}), \
                    mock.patch.dict(os.environ, {"XDG_DATA_HOME": folder}):
                self.assertEqual(_models.find("default"), Path(folder) / "runnel/own.gguf")

    def test_what_is_not_installed_is_named_with_the_places(self) -> None:
        with mock.patch.dict(_models.CARRIED, {"default": ("runnel_model", "no-such.gguf")}):
            with self.assertRaises(runnel.NotFoundError) as caught:
                runnel.Model()
        for part in ("no-such.gguf", "pip install runnel-model", "/usr/share/runnel"):
            self.assertIn(part, str(caught.exception))

    def test_another_name_is_a_path(self) -> None:
        with self.assertRaisesRegex(runnel.Error, "large"):
            runnel.Model("large")


class Libraries(unittest.TestCase):
    def test_those_of_runnel_cuda_come_first(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "runnel_cuda"
            package.mkdir()
            (package / "__init__.py").touch()
            (package / "librunnel.so.0").write_bytes(b"no library")
            environment = {name: value for name, value in os.environ.items() if name != "RUNNEL_LIBRARY"}
            path = os.pathsep.join([folder, str(Path(runnel.__file__).resolve().parents[1])])
            done = subprocess.run([sys.executable, "-c", "import runnel"], capture_output=True, text=True,
                                  env={**environment, "PYTHONPATH": path})
        self.assertIn(f"ImportError: librunnel was not found as {package / 'librunnel.so.0'}", done.stderr)


if __name__ == "__main__":
    unittest.main()
