// oomcast report [ID]: the post-mortem of an episode in the store, or in a recording.
#include "present/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "app/commands.h"
#include "app/tracing.h"
#include "base/escape.h"
#include "base/print.h"
#include "base/unique_fd.h"
#include "present/report_html.h"
#include "store/store.h"

namespace oomcast {
namespace {

Result<std::string> render(const PostMortem& report, Format format, bool color) {
  switch (format) {
    case Format::json:
      return to_json(report);
    case Format::markdown:
      return to_markdown(report);
    case Format::html:
      return to_html(report);
    default:
      break;
  }
  return to_text(report, TextStyle{color});
}

Status write_file(const std::string& path, const std::string& text) {
  std::string shown = escape_for_terminal(path);
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640));
  if (!file) return Error::from_errno("writing " + shown);
  for (std::size_t done = 0; done < text.size();) {
    ssize_t n = write(file.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Error::from_errno("writing " + shown);
    done += static_cast<std::size_t>(n);
  }
  return Ok{};
}

}  // namespace

Result<int> report(const Options& options) {
  if (options.store.empty()) return Error::usage("report: --store none has nothing to read");
  auto store = Store::open(options.store);
  if (!store) return store.error();
  std::optional<std::string> id;
  if (!options.id.empty()) id = options.id;
  auto episode = store->episode(id);
  if (!episode) return episode.error();
  bool color = options.file.empty() && Output(options).color();
  auto text = render(make_post_mortem(*std::move(episode)), options.format, color);
  if (!text) return text.error();
  if (!options.file.empty() && options.file != "-") {
    if (auto ok = write_file(options.file, *text); !ok) return ok.error();
    return 0;
  }
  if (!print(stdout, *text)) return Error::failed("stdout was closed or is full");
  return 0;
}

}  // namespace oomcast
