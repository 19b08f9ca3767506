// SPDX-License-Identifier: Apache-2.0
// runnel-read-document itself, on files that people have and on files that somebody made to harm them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "app/chat/reader/outcome.h"
#include "app/chat/reader/pdf_text.h"
#include "tests/chat/reader/sample_office.h"
#include "tests/chat/reader/sample_pdf.h"

namespace runnel::reader {
namespace {

using test::docxOf;
using test::odtOf;
using test::pdfOf;
using test::pdfOfLines;

struct Ended {
  int code = -1;  // exit code; 1000 + a signal
  std::string text;
  std::string said;
  long peakKilobytes = 0;
};

std::string readAll(int fd) {
  std::string all;
  char piece[65536];
  for (ssize_t got; (got = read(fd, piece, sizeof piece)) > 0;)
    all.append(piece, static_cast<std::size_t>(got));
  close(fd);
  return all;
}

/// Runs it with this as standard input.
Ended runOn(int input, const std::vector<std::string>& options) {
  int out[2];
  EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
  FILE* complaints = std::tmpfile();
  const pid_t child = fork();
  if (child == 0) {
    dup2(input, STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(fileno(complaints), STDERR_FILENO);
    std::vector<char*> words = {const_cast<char*>("runnel-read-document")};
    for (const std::string& option : options) words.push_back(const_cast<char*>(option.c_str()));
    words.push_back(nullptr);
    execv(RUNNEL_READ_DOCUMENT, words.data());
    _exit(126);
  }
  close(out[1]);
  Ended ended;
  ended.text = readAll(out[0]);
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  ended.code = WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
  ended.peakKilobytes = usage.ru_maxrss;
  const int said = dup(fileno(complaints));
  lseek(said, 0, SEEK_SET);
  ended.said = readAll(said);
  std::fclose(complaints);
  return ended;
}

Ended runOn(const std::string& bytes, const std::vector<std::string>& options = {}) {
  FILE* file = std::tmpfile();
  EXPECT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
  std::fflush(file);
  lseek(fileno(file), 0, SEEK_SET);
  Ended ended = runOn(fileno(file), options);
  std::fclose(file);
  return ended;
}

Why whyOf(const std::string& bytes, const std::vector<std::string>& options = {}) {
  const Ended ended = runOn(bytes, options);
  EXPECT_LT(ended.code, 1000) << "a signal: " << ended.said;
  EXPECT_TRUE(ended.code == 0 || ended.text.empty());
  EXPECT_TRUE(ended.code == 0 || !ended.said.empty());
  return static_cast<Why>(ended.code);
}

std::string wordDocument(const std::string& words) {
  return docxOf("<w:p><w:r><w:t>" + words + "</w:t></w:r></w:p>");
}

/// With each of the ways to read a PDF file: by Qt PDF, and by pdftotext.
class ReaderPdf : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && std::system("pdftotext -v 2>/dev/null") != 0)
      GTEST_SKIP() << "SKIPPED: no pdftotext (poppler-utils) on this machine";
    if (!GetParam() && !hasQtPdf()) GTEST_SKIP() << "SKIPPED: built without Qt PDF (qt6-pdf-dev)";
    if (GetParam()) options = {"--pdf-by-program"};
  }
  std::vector<std::string> with(std::vector<std::string> more) const {
    more.insert(more.begin(), options.begin(), options.end());
    return more;
  }
  std::vector<std::string> options;
};
INSTANTIATE_TEST_SUITE_P(By, ReaderPdf, testing::Values(false, true),
                         [](const auto& by) { return by.param ? "Pdftotext" : "QtPdf"; });

TEST_P(ReaderPdf, ReadsPages) {
  const Ended ended =
      runOn(pdfOfLines({"The tower of Hallvik is an exam-", "ple of granite."}, 2), options);
  EXPECT_EQ(ended.code, 0) << ended.said;
  EXPECT_EQ(ended.text,
            "The tower of Hallvik is an example of granite.\n\nThe tower of Hallvik is an example "
            "of granite.\n");
}

TEST_P(ReaderPdf, SaysThatAScanHasNoText) {
  EXPECT_EQ(whyOf(pdfOf(test::pagesOf(test::streamOf("0 0 100 100 re f"))), options), Why::NoText);
}

TEST_P(ReaderPdf, SaysThatAPasswordIsNeeded) {
  EXPECT_EQ(whyOf(test::encryptedPdf(), options), Why::Encrypted);
}

TEST_P(ReaderPdf, EndsWherePagesOrFormsHoldThemselves) {
  const std::set<Why> any = {Why::Read, Why::NoText, Why::Damaged, Why::Time, Why::Memory};
  std::vector<std::string> objects = test::pagesOf(test::linesOf({"x"}));
  objects[1] = "<< /Type /Pages /Count 9 /Kids [ 2 0 R 2 0 R 5 0 R ] >>";
  EXPECT_TRUE(any.contains(whyOf(pdfOf(objects), with({"--seconds", "20"}))));
  objects = test::pagesOf(test::streamOf("/X Do"));
  objects[4] =
      "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Resources 6 0 R /Contents 4 0 R >>";
  objects.push_back("<< /XObject << /X 7 0 R >> >>");
  objects.push_back(test::streamOf(
      "/X Do /X Do", "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources 6 0 R"));
  EXPECT_TRUE(any.contains(whyOf(pdfOf(objects), with({"--seconds", "20"}))));
  objects = test::pagesOf(test::linesOf({"x"}));
  objects[1] = "<< /Type /Pages /Count 2147483647 /Kids [ 5 0 R ] >>";
  EXPECT_TRUE(any.contains(whyOf(pdfOf(objects), with({"--seconds", "5"}))));
}

TEST_P(ReaderPdf, SurvivesTruncationAndNoise) {
  const std::string file = pdfOfLines({"The tower of Hallvik"});
  std::mt19937 random(7);
  for (int i = 0; i < 12; ++i) {
    std::string broken = file.substr(0, 20 + random() % (file.size() - 20));
    for (int k = 0; k < 5; ++k)
      broken[9 + random() % (broken.size() - 9)] = static_cast<char>(random());
    const int code = runOn(broken, options).code;
    EXPECT_TRUE(code < 1000) << i << ": " << code;
  }
  EXPECT_EQ(whyOf("%PDF-1.7\n" + std::string(5000, 'x'), options), Why::Damaged);
}

TEST_P(ReaderPdf, StopsWhenItsTimeIsOver) {
  std::vector<std::string> lines(20'000, "0123456789");
  const auto began = std::chrono::steady_clock::now();
  // Each page takes a while, and there are many.
  const Why why = whyOf(pdfOfLines(lines, 3000), with({"--seconds", "1"}));
  EXPECT_EQ(why, Why::Time);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
}

TEST(ReaderProgram, ReadsWordAndOpenDocument) {
  EXPECT_EQ(runOn(wordDocument("The tower has 199 steps.")).text, "The tower has 199 steps.\n");
  EXPECT_EQ(runOn(odtOf("<text:p>The tower has 199 steps.</text:p>")).text,
            "The tower has 199 steps.\n");
}

TEST(ReaderProgram, TellsHowFarItIs) {
  if (!hasQtPdf()) GTEST_SKIP() << "SKIPPED: built without Qt PDF (qt6-pdf-dev)";
  const std::string said = runOn(pdfOfLines({"x"}, 4)).said;
  EXPECT_NE(said.find("progress 2 4\n"), std::string::npos) << said;
}

TEST(ReaderProgram, RefusesAnEmptyDocument) {
  EXPECT_EQ(whyOf(wordDocument("  ")), Why::NoText);
  EXPECT_EQ(whyOf(odtOf("")), Why::NoText);
}

TEST(ReaderProgram, RefusesABombWhileItUnpacksIt) {
  const std::string bomb = test::docxBomb(std::size_t{1} << 30);
  EXPECT_LT(bomb.size(), std::size_t{2} << 20);
  const Ended ended = runOn(bomb);
  EXPECT_EQ(ended.code, static_cast<int>(Why::TooLarge)) << ended.said;
  EXPECT_LT(ended.peakKilobytes, 400L << 10);
}

TEST(ReaderProgram, RefusesABombThatSaysItIsSmall) {
  constexpr std::size_t kBytes = std::size_t{100} << 20;
  std::string bomb = test::docxBomb(kBytes);
  std::string size(4, '\0');
  for (int i = 0; i < 4; ++i)
    size[static_cast<std::size_t>(i)] = static_cast<char>(kBytes >> (8 * i));
  int places = 0;
  for (std::size_t at = 0; (at = bomb.find(size, at)) != std::string::npos; ++places)
    bomb.replace(at, 4, std::string("\x09\0\0\0", 4));
  ASSERT_GE(places, 1);
  const Ended ended = runOn(bomb);
  EXPECT_TRUE(ended.code == static_cast<int>(Why::TooLarge) ||
              ended.code == static_cast<int>(Why::Damaged))
      << ended.code << ended.said;
}

TEST(ReaderProgram, EndsWhereItsMemoryDoes) {
  std::string many;
  for (int i = 0; i < 2'000'000; ++i) many += "<w:p/>";
  EXPECT_EQ(whyOf(docxOf(many), {"--megabytes", "200"}), Why::Memory);
  EXPECT_EQ(whyOf(wordDocument(std::string(30 << 20, 'a')), {"--megabytes", "110"}), Why::Memory);
}

TEST(ReaderProgram, RefusesMoreTextThanAModelReads) {
  EXPECT_EQ(whyOf(wordDocument(std::string(20 << 20, 'a'))), Why::TooLarge);
}

TEST(ReaderProgram, NamesOtherFiles) {
  std::string garbage(10 << 20, '\0');
  std::mt19937 random(3);
  for (char& c : garbage) c = static_cast<char>(random());
  EXPECT_EQ(whyOf(garbage), Why::Damaged);
  EXPECT_EQ(whyOf("PK\x03\x04" + garbage.substr(0, 1000)), Why::Damaged);
  EXPECT_EQ(whyOf(""), Why::Damaged);
  std::string wide;
  for (const char c : std::string("EncryptedPackage")) (wide += c) += '\0';
  const std::string compound = "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1";
  EXPECT_EQ(whyOf(compound + std::string(2000, '\0') + wide), Why::Encrypted);
  EXPECT_EQ(whyOf(compound + std::string(2000, '\0')), Why::NotSupported);
}

TEST(ReaderProgram, WaitsForNoInputLongerThanItsTime) {
  int endless[2];
  ASSERT_EQ(pipe2(endless, O_CLOEXEC), 0);
  EXPECT_EQ(runOn(endless[0], {"--seconds", "1"}).code, static_cast<int>(Why::Time));
  close(endless[0]);
  close(endless[1]);
}

TEST(ReaderProgram, RefusesOptionsItDoesNotKnow) {
  EXPECT_EQ(whyOf("", {"--seconds"}), Why::Usage);
  EXPECT_EQ(whyOf("", {"--seconds", "0"}), Why::Usage);
  EXPECT_EQ(whyOf("", {"report.pdf"}), Why::Usage);
}

}  // namespace
}  // namespace runnel::reader
