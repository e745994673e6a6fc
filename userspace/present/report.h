// A post-mortem for users and for programs. Local time is this machine's; untrusted names are escaped.
#pragma once

#include <string>

#include "present/post_mortem.h"
#include "stream/text.h"

namespace oomcast {

/// At most 80 columns, most important first; one screen for one victim.
std::string to_text(const PostMortem& report, const TextStyle& style);
std::string to_markdown(const PostMortem& report);
/// One object on one line, with the contract's names and a newline.
std::string to_json(const PostMortem& report);

/// "2026-11-21 10:48:03.123 CET (09:48:03.123 UTC)", with `digits` decimals of the second.
std::string format_moment(WallTime t, unsigned digits = 3);

}  // namespace oomcast
