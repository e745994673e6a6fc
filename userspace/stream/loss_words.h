// Losses in words: JSON has the reasons' names; text says what is missing and whether it matters.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace oomcast {

/// "3 samples skipped to spare a busy machine; kills are not affected". Of a reason that is not known here,
/// as an older store may have, its name, safe on a terminal.
std::string describe_loss(std::string_view reason, std::uint64_t count);
bool is_known_loss(std::string_view reason);
std::vector<std::string_view> known_losses();

/// In one line, without why: "3 samples skipped, 1 process not read in time; kills are not affected". Empty:
/// nothing was lost.
std::string summarize_losses(const std::map<std::string, std::uint64_t>& losses);

}  // namespace oomcast
