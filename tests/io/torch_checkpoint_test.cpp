// SPDX-License-Identifier: Apache-2.0
// What torch.save() writes: read exactly; and everything that such a file could be instead: refused by name.
#include "runtime/io/torch_checkpoint.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/byte_reader.h"
#include "runtime/base/file_map.h"
#include "runtime/io/torch_pickle.h"
#include "runtime/io/zip.h"
#include "tests/io/sample_files.h"

namespace runnel {
namespace {

using test::RawBytes;

constexpr const char* kFile = RUNNEL_TEST_DATA "/torch/rwkv7.pth";

/// Element i of tensor t as make_pth.py has it.
float value_of(std::size_t i, std::size_t t) {
  return (static_cast<float>((7 * i + 13 * t) % 61) - 30.0F) / 32.0F;
}

/// The tensors in the order in which the file was made.
std::vector<std::string> names_in_order() {
  std::vector<std::string> names{"emb.weight"};
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    const auto add = [&](const std::string& name) { names.push_back(block + name); };
    for (const std::string norm : {"ln0", "ln1", "ln2"}) {
      if (norm == "ln0" && block != "blocks.0.") continue;
      add(norm + ".weight");
      add(norm + ".bias");
    }
    for (const char j : std::string("rwkvag")) add(std::string("att.x_") + j);
    for (const char j : std::string("wavg")) {
      if (j != 'g') add(std::string("att.") + j + "0");
      add(std::string("att.") + j + "1");
      add(std::string("att.") + j + "2");
    }
    for (const char* name :
         {"att.k_k", "att.k_a", "att.r_k", "att.receptance.weight", "att.key.weight",
          "att.value.weight", "att.output.weight", "att.ln_x.weight", "att.ln_x.bias", "ffn.x_k",
          "ffn.key.weight", "ffn.value.weight"})
      add(name);
  }
  for (const char* name : {"ln_out.weight", "ln_out.bias", "head.weight"}) names.push_back(name);
  return names;
}

TEST(TorchCheckpoint, ReadsWhatTorchWrites) {
  const auto checkpoint = TorchCheckpoint::open(kFile);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
  const std::vector<std::string> names = names_in_order();
  ASSERT_EQ(checkpoint->tensors().size(), names.size());
  for (std::size_t t = 0; t < names.size(); ++t) {
    const auto found = checkpoint->tensors().find(names[t]);
    ASSERT_NE(found, checkpoint->tensors().end()) << names[t];
    const auto values = to_f32(found->second);
    ASSERT_TRUE(values.has_value());
    for (std::size_t i = 0; i < values->size(); ++i)
      ASSERT_EQ((*values)[i], value_of(i, t)) << names[t] << " " << i;
  }
  const auto& tensors = checkpoint->tensors();
  EXPECT_EQ(tensors.at("emb.weight").type, SafetensorsType::f32);
  EXPECT_EQ(tensors.at("emb.weight").shape, (std::vector<std::int64_t>{24, 16}));
  EXPECT_EQ(tensors.at("blocks.1.att.receptance.weight").type, SafetensorsType::f16);
  EXPECT_EQ(tensors.at("blocks.0.att.x_r").shape, (std::vector<std::int64_t>{1, 1, 16}));
  EXPECT_EQ(tensors.at("head.weight").type, SafetensorsType::bf16);
}

// ---- pickles by hand

std::string text(std::string_view s) {
  return RawBytes().raw("X").put(std::uint32_t(s.size())).raw(s).text();
}
std::string small(int n) { return std::string("K") + static_cast<char>(n); }
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string storage(const std::string& kind = "FloatStorage", int elements = 6,
                    const std::string& key = "0") {
  return "(" + text("storage") + global("torch", kind) + text(key) + text("cpu") + small(elements) +
         "tQ";
}
const std::string kOrdered = global("collections", "OrderedDict") + ")R";
std::string sizes(std::vector<int> values) {
  std::string out = "(";
  for (const int v : values) out += small(v);
  return out + "t";
}
std::string tensor(const std::string& of, int offset, const std::vector<int>& shape,
                   const std::vector<int>& strides) {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + of + small(offset) + sizes(shape) +
         sizes(strides) + "\x89" + kOrdered + "tR";
}
std::string pickled(const std::string& body) { return "\x80\x02" + body + "."; }
std::string one(const std::string& value) { return pickled("}" + text("w") + value + "s"); }
const std::string kPlain = tensor(storage(), 0, {2, 3}, {3, 1});

TEST(TorchPickle, ReadsTensorsOfPlainAndOrderedDicts) {
  for (const std::string& dict : {std::string("}"), kOrdered}) {
    const std::string bytes = pickled(dict + "(" + text("w") + kPlain + "u");
    const auto read = read_torch_pickle(as_bytes(bytes));
    ASSERT_TRUE(read.has_value()) << read.error().message;
    ASSERT_EQ(read->tensors.size(), 1U);
    EXPECT_EQ(read->tensors[0].first, "w");
    EXPECT_TRUE(read->tensors[0].second.is_contiguous());
    EXPECT_EQ(read->storages[0].elements, 6);
  }
}

struct Refused {
  const char* what;
  std::string pickle;
  std::string message;  // a part of it
};

class TorchPickleRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(TorchPickleRefuses, ByName) {
  const auto read = read_torch_pickle(as_bytes(GetParam().pickle));
  ASSERT_FALSE(read.has_value());
  EXPECT_NE(read.error().message.find(GetParam().message), std::string::npos)
      << read.error().message;
}

std::string mutated(const std::string& from, const std::string& to) {
  std::string bytes = one(kPlain);
  return bytes.replace(bytes.find(from), from.size(), to);
}

INSTANTIATE_TEST_SUITE_P(
    Hostile, TorchPickleRefuses,
    ::testing::Values(
        Refused{"Global", pickled(global("os", "system") + "(" + text("true") + "tR"),
                "byte 2: GLOBAL 'os.system' is not one of those"},
        Refused{"GlobalOfTorch", pickled(global("torch", "load") + ")R"),
                "GLOBAL 'torch.load' is not one of those"},
        Refused{"Builtin", pickled(global("builtins", "eval") + ")R"), "'builtins.eval'"},
        Refused{"Inst", pickled("(ios\nsystem\n"), "opcode INST is not read"},
        Refused{"Obj", pickled("(" + global("collections", "OrderedDict") + "o"), "opcode OBJ"},
        Refused{"NewObj", pickled(global("collections", "OrderedDict") + ")\x81"), "opcode NEWOBJ"},
        Refused{"StackGlobal", pickled(text("os") + text("system") + "\x93"),
                "opcode STACK_GLOBAL"},
        Refused{"Extension", pickled("\x82\x01"), "opcode EXT1"},
        Refused{"UnknownOpcode", pickled("\xFF"), "opcode number 255"},
        Refused{"ReduceOfText", pickled(text("w") + ")R"), "REDUCE calls a text"},
        Refused{"ReduceOfStorageClass", pickled(global("torch", "FloatStorage") + ")R"),
                "REDUCE of torch.FloatStorage"},
        Refused{"OrderedDictOfItems", pickled(global("collections", "OrderedDict") + "()t\x85R"),
                "REDUCE of collections.OrderedDict with 1 arguments"},
        Refused{"BuildOfDict", pickled("}}b"), "BUILD of a dict"},
        Refused{"BuildOfTensor", one(kPlain + "}b"), "BUILD of a tensor"},
        Refused{"BuildWithOther", pickled(kOrdered + "}" + text("__class__") + "Nsb"),
                "BUILD of an OrderedDict with '__class__', expected '_metadata'"},
        Refused{"BuildWithTuple", pickled(kOrdered + ")b"), "BUILD of an OrderedDict with a tuple"},
        Refused{"Protocol", "\x80\x04}.", "protocol 4, expected 2"},
        Refused{"PersistentText", pickled(text("0") + "Q"), "the persistent id is no"},
        Refused{"StorageOfOtherClass", one(tensor(storage("LongStorage"), 0, {1}, {1})),
                "GLOBAL 'torch.LongStorage'"},
        Refused{"StorageOfFunction",
                pickled("(" + text("storage") + global("collections", "OrderedDict") + text("0") +
                        text("cpu") + "K\x01tQ"),
                "collections.OrderedDict as the class of a storage"},
        Refused{"StorageTwice", pickled(storage() + storage("HalfStorage")),
                "storage '0' is described twice and differently"},
        Refused{"StorageGrows", pickled(storage() + storage("FloatStorage", 7)),
                "described twice and differently"},
        Refused{"ShapeLeaves", one(tensor(storage(), 0, {2, 4}, {3, 1})),
                "storage '0' has 8 elements, but the storage has 6"},
        Refused{"OffsetLeaves", one(tensor(storage(), 1, {2, 3}, {3, 1})),
                "ends at element 6, but the storage has 6"},
        Refused{"StrideLeaves", one(tensor(storage(), 0, {2, 3}, {4, 1})), "ends at element 6"},
        Refused{"StrideOfNothing", one(tensor(storage(), 0, {7}, {0})), "has 7 elements"},
        Refused{"EmptyBehind", one(tensor(storage(), 7, {0}, {1})), "but the storage has 6"},
        Refused{"StridesFewer", one(tensor(storage(), 0, {2, 3}, {3})),
                "has 2 dimensions and 1 strides"},
        Refused{"NineDimensions",
                one(tensor(storage(), 0, std::vector<int>(9, 1), std::vector<int>(9, 1))),
                "has 9 dimensions"},
        Refused{"NegativeOffset", mutated(small(0) + "(K\x02", "J\xFF\xFF\xFF\xFF(K\x02"),
                "a tensor's offset is -1"},
        Refused{"HugeShape",
                mutated(sizes({2, 3}), "(\x8a\x08" + std::string(7, '\xFF') + "\x7F\x8a\x08" +
                                           std::string(7, '\xFF') + "\x7Ft"),
                "has more than 2^63 elements"},
        Refused{"HugeStride",
                mutated(sizes({3, 1}), "(\x8a\x08" + std::string(7, '\xFF') + "\x7FK\x01t"),
                "has strides beyond 2^63"},
        Refused{"LongNumber", pickled("\x8a\x09" + std::string(9, '\x01')), "a number of 9 bytes"},
        Refused{"ValueNoTensor", one(small(1)), "'w' is a number, expected a tensor"},
        Refused{"KeyNoText", pickled("}" + small(1) + kPlain + "s"), "a key is a number"},
        Refused{"NoDict", pickled(kPlain), "the file holds a tensor, expected a dict of tensors"},
        Refused{"TwoValues", pickled("}}"), "ends with 2 values"},
        Refused{"OpenMark", pickled("}("), "ends with 1 values"},
        Refused{"OddItems", pickled("}(" + text("w") + "u"), "SETITEMS of 1 values"},
        Refused{"ItemsInTuple", pickled(")" + text("w") + "Ns"), "items are set in a tuple"},
        Refused{"ItemsAcrossMark", pickled("}(" + text("w") + "Ns"), "the stack is empty"},
        Refused{"Underflow", pickled("R"), "the stack is empty"},
        Refused{"TupleWithoutMark", pickled("t"), "TUPLE without a mark"},
        Refused{"MemoAhead", pickled("}q\x05"), "memo 5, expected at most 0"},
        Refused{"MemoMissing", pickled("h\x05"), "memo 5 of 0"},
        Refused{"Cut", "\x80\x02X\xFF\xFF\xFF\xFFw", "byte 2: the pickle is cut"},
        Refused{"NoStop", "\x80\x02}", "the pickle is cut"},
        Refused{"Empty", "", "the pickle is cut"}),
    [](const auto& tested) { return tested.param.what; });

// ---- archives by hand

struct ZipEntry {
  std::string name;
  std::string bytes;
};

/// An archive as zip programs write it, without zip64.
std::string archive_of(const std::vector<ZipEntry>& entries) {
  RawBytes file, directory;
  for (const ZipEntry& e : entries) {
    const auto at = static_cast<std::uint32_t>(file.text().size());
    const auto size = static_cast<std::uint32_t>(e.bytes.size());
    const auto name = static_cast<std::uint16_t>(e.name.size());
    file.put(0x04034B50U).put(std::uint64_t{0}).put(std::uint16_t{0}).put(0U).put(size).put(size);
    file.put(name).put(std::uint16_t{0}).raw(e.name).raw(e.bytes);
    directory.put(0x02014B50U).put(std::uint64_t{0}).put(std::uint32_t{0}).put(0U);
    directory.put(size).put(size).put(name).put(std::uint64_t{0}).put(std::uint32_t{0}).put(at);
    directory.raw(e.name);
  }
  const auto at = static_cast<std::uint32_t>(file.text().size());
  const auto count = static_cast<std::uint16_t>(entries.size());
  file.raw(directory.text()).put(0x06054B50U).put(0U).put(count).put(count);
  file.put(static_cast<std::uint32_t>(directory.text().size())).put(at).put(std::uint16_t{0});
  return file.text();
}

std::string checkpoint_of(const std::string& pickle, const std::string& storage_bytes) {
  return archive_of(
      {{"m/data.pkl", pickle}, {"m/byteorder", "little"}, {"m/data/0", storage_bytes}});
}

std::string message_of(const std::string& file) {
  const auto read = TorchCheckpoint::parse(as_bytes(file));
  return read ? "" : read.error().message;
}

TEST(TorchCheckpoint, GathersTensorsThatLieInAnotherOrder) {
  RawBytes numbers;
  for (int i = 0; i < 6; ++i) numbers.put(static_cast<float>(i));
  const std::string file = checkpoint_of(one(tensor(storage(), 0, {3, 2}, {1, 3})), numbers.text());
  const auto read = TorchCheckpoint::parse(as_bytes(file));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*to_f32(read->tensors().at("w")), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(TorchCheckpoint, RefusesFilesThatDoNotFitTogether) {
  const std::string numbers(24, '\0');
  EXPECT_EQ(message_of(checkpoint_of(one(kPlain), numbers)), "");
  EXPECT_EQ(message_of(checkpoint_of(one(kPlain), numbers + "x")),
            "entry data/0: has 25 bytes, expected 6 elements of F32");
  EXPECT_EQ(
      message_of(checkpoint_of(one(tensor(storage("FloatStorage", 6, "1"), 0, {1}, {1})), numbers)),
      "entry data/1: is missing");
  EXPECT_EQ(message_of(checkpoint_of(pickled("}(" + text("w") + kPlain + text("w") + kPlain + "u"),
                                     numbers)),
            "tensor 'w': is there twice");
  EXPECT_EQ(message_of(archive_of(
                {{"m/data.pkl", one(kPlain)}, {"m/byteorder", "big"}, {"m/data/0", numbers}})),
            "entry byteorder: is 'big', expected 'little'");
  EXPECT_EQ(message_of(archive_of({{"a", ""}})),
            "has 0 entries NAME/data.pkl, expected one: is it of torch.save()?");
  EXPECT_EQ(message_of("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."),
            "is in the format that torch wrote before 1.6: save it again with a newer one");
}

TEST(TorchCheckpoint, RefusesMoreCopiesThanTheFileHas) {
  std::string items = "}(";
  for (int i = 0; i < 100; ++i)
    items += text(std::to_string(i)) + tensor(storage("FloatStorage", 240), 0, {120, 2}, {1, 120});
  EXPECT_EQ(message_of(checkpoint_of(pickled(items + "u"), std::string(960, '\0'))),
            "the tensors that are not row-major have more bytes than the file");
}

TEST(Zip, FindsEntriesAndTheirBytes) {
  const std::string file = archive_of({{"a", "one"}, {"b/c", ""}, {"d", "three"}});
  const auto entries = read_zip(as_bytes(file));
  ASSERT_TRUE(entries.has_value()) << entries.error().message;
  ASSERT_EQ(entries->size(), 3U);
  EXPECT_EQ(as_text(entries->at("a")), "one");
  EXPECT_EQ(as_text(entries->at("b/c")), "");
  EXPECT_EQ(as_text(entries->at("d")), "three");
}

TEST(Zip, NamesWhatIsWrong) {
  const std::string good = archive_of({{"a", "one"}, {"b", "two"}});
  const std::size_t end = good.size() - 22;
  const std::size_t first = end - 2 * 47;  // in the directory
  const auto message = [](const std::string& file) {
    const auto read = read_zip(as_bytes(file));
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(message(good), "");
  EXPECT_EQ(message(""), "is no zip archive: it has no end record");
  EXPECT_EQ(message(good + "x"), "is no zip archive: it has no end record");
  using test::patched;
  EXPECT_EQ(message(patched(good, first + 10, std::uint16_t{8})),
            "entry 'a': is compressed (method 8), expected to be stored");
  EXPECT_EQ(message(patched(good, first + 8, std::uint16_t{1})), "entry 'a': is encrypted");
  EXPECT_EQ(message(patched(good, first + 20, 4U)),
            "entry 'a': has 4 bytes for 3, expected as many or a zip64 field");
  EXPECT_EQ(message(patched(good, first + 24, 0xFFFFFFFFU)),
            "entry 'a': has 3 bytes for 4294967295, expected as many or a zip64 field");
  EXPECT_EQ(message(patched(good, first + 42, 1U)), "entry 'a': has no header at 1");
  EXPECT_EQ(message(patched(good, first + 42, 0xFFFFFFF0U)),
            "entry 'a': its header is at 4294967280, expected before the directory at 68");
  EXPECT_EQ(message(patched(good, first + 46, 'c')), "entry 'c': its header has another name");
  EXPECT_EQ(message(patched(good, end + 10, std::uint16_t{3})),
            "central directory: 94 bytes for 3 entries");
  EXPECT_EQ(message(patched(good, end + 16, 0x7FFFFFFFU)),
            "central directory: is 94 bytes at 2147483647, expected to lie before its end record "
            "at 162");
  EXPECT_EQ(message(patched(good, end + 4, std::uint16_t{1})), "the archive is in several files");
  EXPECT_EQ(message(archive_of({{"a", "1"}, {"a", "2"}})), "entry 'a': is there twice");
  std::string overlap = patched(patched(good, first + 20, 30U), first + 24, 30U);
  EXPECT_EQ(message(overlap), "entries at 0 and 34 overlap");
}

TEST(Zip, ReadsZip64) {
  // The file of torch has both end records; with the short one saturated the long one counts.
  const auto file = FileMap::open(kFile);
  ASSERT_TRUE(file.has_value());
  std::string bytes(as_text(file->bytes()));
  const std::size_t entries = read_zip(as_bytes(bytes))->size();
  bytes = test::patched(bytes, bytes.size() - 12, std::uint16_t{0xFFFF});
  bytes = test::patched(bytes, bytes.size() - 6, 0xFFFFFFFFU);
  const auto read = read_zip(as_bytes(bytes));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->size(), entries);
  const std::string lost = test::patched(bytes, bytes.size() - 22 - 12, std::uint64_t{5});
  const auto refused = read_zip(as_bytes(lost));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, "zip64 end record: is not at 5, where its locator says it is");
}

TEST(TorchCheckpoint, AnyCutIsAnError) {
  const std::string file = checkpoint_of(one(kPlain), std::string(24, '\0'));
  for (std::size_t n = 0; n < file.size(); ++n)
    EXPECT_FALSE(TorchCheckpoint::parse(as_bytes(file).first(n)).has_value()) << n;
}

}  // namespace
}  // namespace runnel
