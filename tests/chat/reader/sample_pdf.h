// SPDX-License-Identifier: Apache-2.0
// PDF files as small as they can be, written by hand.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace runnel::test {

/// A file of these objects, of which the first is the catalogue, with a table of where they are.
inline std::string pdfOf(const std::vector<std::string>& objects, const std::string& trailer = {}) {
  std::string file = "%PDF-1.4\n";
  std::string table;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    char entry[32];
    std::snprintf(entry, sizeof entry, "%010zu 00000 n \n", file.size());
    table += entry;
    file += std::to_string(i + 1) + " 0 obj\n" + objects[i] + "\nendobj\n";
  }
  const std::string count = std::to_string(objects.size() + 1);
  const std::string at = std::to_string(file.size());
  return file + "xref\n0 " + count + "\n0000000000 65535 f \n" + table + "trailer\n<< /Size " +
         count + " /Root 1 0 R " + trailer + " >>\nstartxref\n" + at + "\n%%EOF\n";
}

inline std::string streamOf(const std::string& content, const std::string& keys = {}) {
  return "<< /Length " + std::to_string(content.size()) + ' ' + keys + " >>\nstream\n" + content +
         "\nendstream";
}

/// Objects of a file whose `pages` all show object 4.
inline std::vector<std::string> pagesOf(const std::string& content, int pages = 1) {
  std::vector<std::string> objects = {"<< /Type /Catalog /Pages 2 0 R >>",
                                      {},
                                      "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
                                      content};
  std::string kids;
  for (int i = 0; i < pages; ++i) {
    kids += std::to_string(objects.size() + 1) + " 0 R ";
    objects.push_back(
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> "
        ">> /Contents 4 0 R >>");
  }
  objects[1] = "<< /Type /Pages /Count " + std::to_string(pages) + " /Kids [ " + kids + "] >>";
  return objects;
}

/// Lines from the top of a page.
inline std::string linesOf(const std::vector<std::string>& lines) {
  std::string content = "BT /F1 12 Tf 14 TL 50 800 Td\n";
  for (const std::string& line : lines) content += '(' + line + ") Tj T*\n";
  return streamOf(content + "ET");
}

inline std::string pdfOfLines(const std::vector<std::string>& lines, int pages = 1) {
  return pdfOf(pagesOf(linesOf(lines), pages));
}

/// One that opens with a password nobody knows.
inline std::string encryptedPdf() {
  const std::string hash(64, 'A');
  return pdfOf(pagesOf(linesOf({"Secret."})),
               "/ID [ <00112233445566778899AABBCCDDEEFF> <00112233445566778899AABBCCDDEEFF> ] "
               "/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <" +
                   hash + "> /U <" + hash + "> >>");
}

}  // namespace runnel::test
