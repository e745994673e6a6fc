// A log file, compressed or not, line by line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace oomcast {

/// Opens a log, by gzip or not, for read_log(). Error: it cannot be opened, with the path.
Result<UniqueFd> open_log(const std::string& path);

/// Reads `fd` to its end, decompressing it if it is compressed by gzip; UTF-16 as UTF-8. `on_line`: each line
/// without its newline, one of more than 64 KiB in pieces (`cut`: the next piece is its rest; or the newline
/// was missing at the end). `on_bytes`: how much has been read, now and then; false stops. Error: it cannot
/// be read, or the gzip data is damaged; what came before has been given. Memory: 1.2 MiB, whatever comes.
Status read_log(UniqueFd fd, const std::function<void(std::string_view line, bool cut)>& on_line,
                const std::function<bool(std::uint64_t bytes)>& on_bytes = {});

}  // namespace oomcast
