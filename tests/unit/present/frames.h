#pragma once

#include <string>
#include <utility>

#include "blame/frame.h"

namespace oomcast::test {

inline Frame native(std::string function, const char* file) {
  return {Frame::Kind::native, std::move(function), file, std::nullopt};
}
inline Frame python(std::string function, std::string file, std::uint32_t line) {
  return {Frame::Kind::python, std::move(function), std::move(file), line};
}

}  // namespace oomcast::test
