# SPDX-License-Identifier: Apache-2.0
"""RWKV-7 as people have it, through the programs: the trained model of 834 K parameters goes on as its reference does,
and a file of the 0.1B shape with random weights, written by the gguf package, chats by `runnel chat` and `runnel serve`.
RUNNEL_PROGRAM: the program. RUNNEL_GOLDEN: the folder with rwkv7/trained_834k and rwkv7/world."""
import json
import lzma
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import unittest
import urllib.request

import gguf
import numpy as np

PROGRAM = os.environ["RUNNEL_PROGRAM"]
GOLDEN = pathlib.Path(os.environ["RUNNEL_GOLDEN"]) / "rwkv7"
LAYERS, WIDTH, HIDDEN, HEAD, VOCABULARY = 12, 768, 3072, 64, 65536
RANKS = {"w": 64, "a": 64, "v": 32, "g": 128}


def run(*arguments, text=""):
    return subprocess.run([PROGRAM, *map(str, arguments)], input=text, capture_output=True, text=True, check=True, timeout=600)


def tensors(file):
    data = file.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    types = {"I32": np.int32, "F64": np.float64, "F32": np.float32}
    return {name: np.frombuffer(data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]], types[t["dtype"]]).reshape(t["shape"])
            for name, t in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


def write_random(file, seed):
    """A file as published ones are: names, types and keys of the usual converter, the whole World vocabulary."""
    dice = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(file, "rwkv7")
    with tempfile.NamedTemporaryFile(suffix=".gguf") as unpacked:
        unpacked.write(lzma.open(GOLDEN / "world" / "vocab.gguf.xz").read())
        unpacked.flush()
        field = gguf.GGUFReader(unpacked.name).fields["tokenizer.ggml.tokens"]
        tokens = [bytes(field.parts[at]) for at in field.data]
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(0)
    writer.add_layer_norm_eps(1e-5)
    writer.add_wkv_head_size(HEAD)
    writer.add_decay_lora_rank(RANKS["w"])
    writer.add_iclr_lora_rank(RANKS["a"])
    writer.add_value_residual_mix_lora_rank(RANKS["v"])
    writer.add_gate_lora_rank(RANKS["g"])
    writer.add_tokenizer_model("rwkv")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * len(tokens))
    writer.add_chat_template("rwkv-world")
    writer.add_eot_token_id(261)

    def matrix(name, rows, columns, dtype=np.float16, scale=1.0):
        writer.add_tensor(name, (dice.standard_normal((rows, columns)) * scale / np.sqrt(columns)).astype(dtype))

    def vector(name, mean=0.0, spread=0.1, shape=(WIDTH,)):
        writer.add_tensor(name, (mean + spread * dice.standard_normal(shape)).astype(np.float32))

    matrix("token_embd.weight", VOCABULARY, WIDTH)
    matrix("output.weight", VOCABULARY, WIDTH, scale=3.0)
    for name in ("token_embd_norm", "output_norm"):
        vector(name + ".weight", 1.0)
        vector(name + ".bias")
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        for name in ("attn_norm", "attn_norm_2", "time_mix_ln"):
            vector(at + name + ".weight", 1.0)
            vector(at + name + ".bias")
        vector(at + "time_mix_lerp_fused.weight", 0.5, 0.2, (6, 1, 1, WIDTH))
        for gate, rank in RANKS.items():
            if gate == "v" and layer == 0:
                rank = RANKS["a"]  # dummies, as the converter writes them
            if gate != "g":
                vector(f"{at}time_mix_{gate}0.weight", -1.0 if gate == "w" else 0.0)
            matrix(f"{at}time_mix_{gate}1.weight", rank, WIDTH, np.float32)
            matrix(f"{at}time_mix_{gate}2.weight", WIDTH, rank, np.float32)
        for name in ("k_k", "k_a", "r_k"):
            vector(f"{at}time_mix_{name}.weight", 0.5)
        for name in ("receptance", "key", "value", "output"):
            matrix(f"{at}time_mix_{name}.weight", WIDTH, WIDTH)
        vector(at + "channel_mix_lerp_k.weight", 0.5, 0.2, (1, 1, WIDTH))
        matrix(at + "channel_mix_key.weight", HIDDEN, WIDTH)
        matrix(at + "channel_mix_value.weight", WIDTH, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Trained(unittest.TestCase):
    def test_it_goes_on_as_its_reference(self):
        golden = tensors(GOLDEN / "trained_834k" / "golden.safetensors")
        read = golden["input_ids"][0].tolist()
        likeliest = np.concatenate([golden["logits_f64"][0, -1:], golden["decode_logits_f64"][0, :-1]]).argmax(axis=1)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "trained.gguf"
            run("convert", GOLDEN / "trained_834k" / "blinkdl" / "model.safetensors", file)
            for expected, following in zip(likeliest, golden["decode_ids"][0]):
                said = run("run", file, "--device", "cpu", "--tokens", ",".join(map(str, read)), "-n", 1).stdout
                self.assertEqual([int(id) for id in re.findall(r"\d+", said)], [expected])
                read.append(int(following))


class Shape(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = pathlib.Path(cls.folder.name) / "rwkv7-g1-0.1b.gguf"
        write_random(cls.file, 7)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_it_is_what_it_says(self):
        facts = json.loads(run("inspect", self.file, "--json").stdout)
        self.assertEqual(facts["architecture"], "rwkv7")
        self.assertGreater(facts["parameters"], 150_000_000)

    def test_it_chats(self):
        out = run("chat", self.file, "--device", "cpu", "-n", 24, "--temp", 1, "--seed", 3, text="Hello\nAnd then?\n")
        self.assertGreater(len(out.stdout), 24)
        again = run("chat", self.file, "--device", "cpu", "-n", 24, "--temp", 1, "--seed", 3, text="Hello\nAnd then?\n")
        self.assertEqual(out.stdout.splitlines()[0], again.stdout.splitlines()[0])

    def test_it_is_served(self):
        server = subprocess.Popen([PROGRAM, "serve", str(self.file), "--device", "cpu", "--port", "0"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        try:
            address = None
            for line in server.stdout:
                if found := re.search(r"http://[\w.]+:\d+", line):
                    address = found[0]
                    break
            body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 12, "temperature": 1, "seed": 3}
            request = urllib.request.Request(address + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=300) as reply:
                answer = json.load(reply)
            self.assertGreater(len(answer["choices"][0]["message"]["content"]), 0)
            self.assertLessEqual(answer["usage"]["completion_tokens"], 12)
            self.assertGreater(answer["usage"]["prompt_tokens"], 3)
        finally:
            server.terminate()
            self.assertEqual(server.wait(30), 0)
            server.stdout.close()


if __name__ == "__main__":
    unittest.main()
