// SPDX-License-Identifier: Apache-2.0
// Office files, written part by part.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace runnel::test {

using Parts = std::vector<std::pair<std::string, std::string>>;

/// A zip file of these parts; with a password each is encrypted.
std::string zipOf(const Parts& parts, const std::string& password = {});

/// A docx file whose document holds this between <w:body> and </w:body>.
std::string docxOf(const std::string& body, Parts more = {});

/// An odt file whose document holds this between <office:text> and </office:text>.
std::string odtOf(const std::string& text, Parts more = {});

/// A docx file of a few kilobytes whose document has so many bytes, nothing but spaces.
std::string docxBomb(std::size_t bytes);

}  // namespace runnel::test
